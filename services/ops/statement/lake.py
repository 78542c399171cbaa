"""The lake in a statement: a reading of its tables, and their rows between two readings."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from services.ops.lake.landed_offsets import LandedOffsets
from services.ops.statement.reading import StoredReading


class LakePartition(msgspec.Struct):
    """A table in one partition of a topic generation: its offsets, and its rows so far."""

    table: str
    topic: str
    partition: int
    topic_id: str
    first: int | None
    next: int
    landed: int

    @property
    def key(self) -> tuple[str, str, int, str]:
        """Return what the readings of two times have in common."""
        return self.table, self.topic, self.partition, self.topic_id


class LakeTablesReading(StoredReading):
    """All tables of the lake at one time; `lag`: events that have not landed, by table and topic."""

    partitions: list[LakePartition]
    lag: list[tuple[str, str, int]] = msgspec.field(default_factory=list)


def reading_of(tables: Iterable[LandedOffsets], at: datetime) -> LakeTablesReading:
    """Return the reading of positions."""
    partitions: list[LakePartition] = []
    lag: dict[tuple[str, str], int] = {}
    for each in tables:
        key = each.key
        partitions.append(
            LakePartition(
                key.table, key.topic, key.partition, key.topic_id, each.first, each.next, each.landed
            )
        )
        lag[key.table, key.topic] = lag.get((key.table, key.topic), 0) + each.lag
    return LakeTablesReading(at, partitions, [(*key, events) for key, events in sorted(lag.items())])


@dataclass(slots=True)
class LakeTableLine:
    """A table of the lake with the events of one topic in a period."""

    table: str
    event_type: str
    topic: str
    #: Their `first` is the start of the period, None if it is unknown.
    partitions: Sequence[LakePartition]
    #: None for a period that has ended.
    lag: int | None
    #: The landing tables whose counts are for the same offsets, and the difference, if there is one.
    compared: Sequence[str] = ()
    difference: str = ""

    @property
    def landed(self) -> int:
        """Return the rows of the period."""
        return sum(each.landed for each in self.partitions)

    @property
    def adds_up(self) -> bool:
        """Return whether no difference was found."""
        return not self.difference

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        return {
            "table": self.table,
            "event_type": self.event_type,
            "topic": self.topic,
            "landed": self.landed,
            "lag": self.lag,
            "partitions": [
                {"partition": each.partition, "since": each.first, "until": each.next, "landed": each.landed}
                for each in self.partitions
            ],
            "compared_with": [*self.compared],
            "adds_up": self.adds_up,
        }


def lines_of(
    first: LakeTablesReading | None,
    last: LakeTablesReading,
    shows: Callable[[str], bool],
    event_type_of: Callable[[str], str],
    *,
    is_live: bool,
) -> Iterator[LakeTableLine]:
    """Yield a line for each table and topic that `shows` accepts; without `first` from the beginning.

    Raise `ValueError` if a count is lower than at the start of the period.
    """
    before = {each.key: each for each in first.partitions} if first else {}
    lag = {(table, topic): events for table, topic, events in last.lag}
    by_line: dict[tuple[str, str], list[LakePartition]] = {}
    for each in last.partitions:
        if shows(each.topic):
            by_line.setdefault((each.table, each.topic), []).append(_growth(before.get(each.key), each))
    for (table, topic), partitions in sorted(by_line.items()):
        yield LakeTableLine(
            table,
            event_type_of(table),
            topic,
            sorted(partitions, key=lambda each: (each.topic_id, each.partition)),
            lag.get((table, topic), 0) if is_live else None,
        )


def _growth(before: LakePartition | None, now: LakePartition) -> LakePartition:
    if before is None:
        return now
    landed = now.landed - before.landed
    if now.next < before.next or landed < 0:
        raise ValueError(
            f"a count of lake.{now.table} in {now.topic}/{now.partition} is lower than at the period's start"
        )
    return msgspec.structs.replace(now, first=before.next, landed=landed)
