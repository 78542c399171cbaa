"""Compares a table of the lake with the landing tables of its type, which have the same events.

Their counts are compared if both have processed the same offsets: the services do not wait for each other.
"""

from collections.abc import Iterable, Mapping

from services.ops.statement.balance import DestinationLine, TopicLine
from services.ops.statement.lake import LakePartition, LakeTableLine
from services.ops.statement.reading import OUTCOMES

Offsets = Mapping[tuple[str, int], tuple[int, int]]


def compare(table: LakeTableLine, lines: Iterable[TopicLine]) -> None:
    """Set the difference of `table`, and the landing tables with which it was compared."""
    count, offsets = sum(each.next for each in table.partitions), _offsets(table.partitions)
    if table.landed > count:
        table.difference = f"{_name(table)} has {table.landed:,} rows of {count:,} offsets"
    for line in lines:
        if line.topic != table.topic or offsets is None or offsets != _offsets_of(line):
            continue
        for each in line.destinations:
            if each.destination == f"{line.database}.events.{table.event_type}":
                table.compared = (*table.compared, each.destination)
                _compare(table, each)


def _compare(table: LakeTableLine, landing: DestinationLine) -> None:
    """A parked event has a row in the lake if Postgres refused its values, and none if it is invalid."""
    low = landing.outcomes.get("landed", 0) + landing.outcomes.get("duplicate", 0)
    high = sum(landing.outcomes.get(outcome, 0) for outcome in OUTCOMES)
    if not low <= table.landed <= high:
        expected = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        table.difference = (
            f"{_name(table)} has {table.landed:,} rows, and {landing.destination} has {expected} events at "
            "the same offsets"
        )


def _name(table: LakeTableLine) -> str:
    return f"{table.topic}: lake.{table.table}"


def _offsets(partitions: Iterable[LakePartition]) -> Offsets | None:
    """Return the offsets of a period by topic generation and partition; None if a start is unknown."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for each in partitions:
        if each.first is None:
            return None
        if each.first < each.next:
            found[each.topic_id, each.partition] = each.first, each.next
    return found


def _offsets_of(line: TopicLine) -> Offsets:
    return {(topic_id, n): (begin, upto) for topic_id, n, begin, upto in line.offsets if begin < upto}
