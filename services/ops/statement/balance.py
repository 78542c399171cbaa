"""The statement's arithmetic: two readings of each database become lines, differences and unknown parts.

Nothing here reads Kafka or Postgres.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from services.ops.statement.lake import LakeTableLine
from services.ops.statement.reading import (
    OUTCOMES,
    Counts,
    DatabaseReading,
    SourceTable,
    TopicReading,
    Uncounted,
)
from services.ops.statement.transforms import TransformLine
from shared import wire


@dataclass(frozen=True, slots=True)
class Period:
    """The two readings of one database; `first` None: from the database's first event on."""

    first: DatabaseReading | None
    last: DatabaseReading


@dataclass(slots=True)
class DestinationLine:
    """The records of one destination, and their outcomes."""

    destination: str
    records: int
    outcomes: dict[str, int]

    @property
    def accounted(self) -> int:
        """Return the records with an outcome."""
        return sum(self.outcomes.get(outcome, 0) for outcome in OUTCOMES)

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        return {
            "destination": self.destination,
            "records": self.records,
            **{outcome: self.outcomes.get(outcome, 0) for outcome in OUTCOMES},
            "adds_up": self.records == self.accounted,
        }


@dataclass(slots=True)
class TopicLine:
    """One topic in one database; `records`, filtered and unroutable ones included, None if not known."""

    topic: str
    database: str
    records: int | None
    filtered: int | None
    unroutable: int | None
    #: Offsets that wait on Kafka until the database is available, and offsets that an operator skipped.
    diverted: int
    skipped: int
    destinations: list[DestinationLine]
    #: By topic id and partition, the offsets of the period.
    offsets: list[tuple[str, int, int, int]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        return {
            "topic": self.topic,
            "database": self.database,
            "records": self.records,
            "filtered": self.filtered,
            "unroutable": self.unroutable,
            "diverted": self.diverted,
            "skipped": self.skipped,
            "destinations": [line.as_dict() for line in self.destinations],
        }


@dataclass(slots=True)
class Statement:
    """All lines of a period, the differences, and by part the reason why it was not evaluated."""

    lines: list[TopicLine] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    unevaluated: dict[str, str] = field(default_factory=dict)
    in_flight: dict[str, int] = field(default_factory=dict)
    tables: list[tuple[str, SourceTable]] = field(default_factory=list)
    transforms: list[TransformLine] = field(default_factory=list)
    lake: list[LakeTableLine] = field(default_factory=list)
    #: By database, the times of its readings.
    times: dict[str, tuple[datetime | None, datetime]] = field(default_factory=dict)
    #: By topic and destination, parked events of the period by their state now; None if not known.
    parked_states: dict[tuple[str, str], dict[str, int]] | None = None

    @property
    def adds_up(self) -> bool:
        """Return whether no difference was found."""
        return not self.differences

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        states = self.parked_states
        return {
            "adds_up": self.adds_up,
            "complete": not self.unevaluated,
            "databases": {
                name: {"since": first and first.isoformat(), "until": last.isoformat()}
                for name, (first, last) in sorted(self.times.items())
            },
            "final_until": min((last.isoformat() for _, last in self.times.values()), default=None),
            "topics": [line.as_dict() for line in self.lines],
            "in_flight": dict(sorted(self.in_flight.items())),
            "parked_now": None
            if states is None
            else [
                {"topic": topic, "destination": destination, **dict(sorted(counts.items()))}
                for (topic, destination), counts in sorted(states.items())
            ],
            "sources": [_table(database, table, self.lines) for database, table in self.tables],
            "transforms": [line.as_dict() for line in self.transforms],
            "lake": [line.as_dict() for line in self.lake],
            "differences": self.differences,
            "unevaluated": [{"part": p, "reason": r} for p, r in sorted(self.unevaluated.items())],
        }


def statement(
    periods: Mapping[str, Period],
    *,
    shows: Callable[[str], bool] = lambda _: True,
    missing: Mapping[str, str] | None = None,
    retired: frozenset[str] = frozenset(),
) -> Statement:
    """Return the statement of `periods` by database, for the topics that `shows` accepts.

    `missing`: databases without a reading, and why.
    """
    out = Statement(unevaluated=dict(missing or {}))
    for name, period in sorted(periods.items()):
        out.times[name] = (period.first.at if period.first else None, period.last.at)
        lines = [*_lines(name, period, shows, out.unevaluated)]
        out.lines += lines
        shown = {line.destination for each in lines for line in each.destinations}
        out.tables += [(name, t) for t in period.last.tables if f"{name}.{t.destination}" in shown]
    out.lines.sort(key=lambda line: (line.topic, line.database))
    by_topic: dict[str, list[TopicLine]] = {}
    for line in out.lines:
        by_topic.setdefault(line.topic, []).append(line)
    for lines in by_topic.values():
        out.differences += _differences(lines, whole=not missing and not retired)
    return out


def _lines(
    database: str, period: Period, shows: Callable[[str], bool], unevaluated: dict[str, str]
) -> Iterator[TopicLine]:
    by_topic: dict[str, TopicLine] = {}
    for topic_id, last in period.last.topics.items():
        if not shows(last.topic):
            continue
        first = (period.first.topics.get(topic_id) if period.first else None) or TopicReading(last.topic, {})
        line = _line(database, topic_id, first, last)
        if _goes_back(line):
            unevaluated[f"{last.topic} in {database}"] = (
                "its ledger or a count is lower than at the start of the period: the database was restored, "
                "or the clock went back"
            )
            continue
        if line.records is None:
            unevaluated[f"{last.topic} in {database}"] = (
                "its filtered and unroutable records are not known at the ledger of this reading: "
                "the writer was in the middle of a batch, or the database was draining"
            )
        known = by_topic.get(last.topic)
        by_topic[last.topic] = _sum(known, line) if known else line
    yield from by_topic.values()


def _line(database: str, topic_id: str, first: TopicReading, last: TopicReading) -> TopicLine:
    offsets: list[tuple[str, int, int, int]] = []
    for partition, upto in sorted(last.next_offsets.items()):
        begin = first.next_offsets.get(partition, last.first_offsets.get(partition))
        offsets.append((topic_id, partition, -1 if begin is None else begin, upto))
    passed = None if any(begin < 0 for _, _, begin, _ in offsets) else sum(b - a for *_, a, b in offsets)
    before = first.uncounted if first.next_offsets else Uncounted()
    uncounted = None
    if last.uncounted is not None and before is not None and passed is not None:
        uncounted = last.uncounted - before
    destinations = []
    for name, counts in sorted(last.destinations.items()):
        old = first.destinations.get(name, Counts(0, {}))
        outcomes = {o: n - old.outcomes.get(o, 0) for o, n in counts.outcomes.items()}
        destinations.append(DestinationLine(f"{database}.{name}", counts.routed - old.routed, outcomes))
    return TopicLine(
        last.topic,
        database,
        None if uncounted is None or passed is None else passed - uncounted.holes,
        None if uncounted is None else uncounted.filtered,
        None if uncounted is None else uncounted.unroutable,
        last.diverted,
        last.skipped - first.skipped,
        destinations,
        offsets,
    )


def _goes_back(line: TopicLine) -> bool:
    """Return whether the period's end is before its start; waiting events may become fewer."""
    return (
        any(0 <= upto < begin for _, _, begin, upto in line.offsets)
        or any(each.records < 0 for each in line.destinations)
        or any(n < 0 for each in line.destinations for o, n in each.outcomes.items() if o != "waiting")
    )


def _sum(a: TopicLine, b: TopicLine) -> TopicLine:
    """Return two generations of one topic as one line."""
    by_name = {line.destination: line for line in a.destinations}
    for line in b.destinations:
        known = by_name.setdefault(line.destination, DestinationLine(line.destination, 0, {}))
        known.records += line.records
        known.outcomes = {
            o: known.outcomes.get(o, 0) + line.outcomes.get(o, 0) for o in known.outcomes | line.outcomes
        }
    return TopicLine(
        a.topic,
        a.database,
        _added(a.records, b.records),
        _added(a.filtered, b.filtered),
        _added(a.unroutable, b.unroutable),
        a.diverted + b.diverted,
        a.skipped + b.skipped,
        [by_name[name] for name in sorted(by_name)],
        a.offsets + b.offsets,
    )


def _added(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _differences(lines: list[TopicLine], *, whole: bool) -> Iterator[str]:
    """Yield the differences of one topic; `whole`: no destination of the topic is missing."""
    for line in lines:
        for each in line.destinations:
            if each.records != each.accounted:
                yield (
                    f"{line.topic}: {each.destination} has {each.records:,} records and "
                    f"{each.accounted:,} outcomes"
                )
    busy = [line for line in lines if line.destinations]
    for line in busy or (lines if whole else []):
        if line.records is None or line.filtered is None or line.unroutable is None:
            continue
        if line.topic.startswith(wire.CHANGE_TOPIC_PREFIX):
            continue  # a transaction's end is a record of no table
        expected = line.records - line.filtered - line.unroutable
        highest = max((each.records for each in line.destinations), default=0)
        total = sum(each.records for each in line.destinations)
        if highest > expected:
            yield (
                f"{line.topic}: {line.database} has {highest:,} records of one destination, and the topic "
                f"has {expected:,} that are neither filtered nor unroutable"
            )
        elif whole and len(busy) <= 1 and total + line.skipped < expected:
            yield (
                f"{line.topic}: {expected:,} records are neither filtered nor unroutable, and "
                f"{line.database} has {total:,}"
            )


def _table(database: str, table: SourceTable, lines: list[TopicLine]) -> dict[str, Any]:
    destination = f"{database}.{table.destination}"
    counts = [d for line in lines for d in line.destinations if d.destination == destination]
    return {
        "source": table.source,
        "table": table.table,
        "database": database,
        "read": sum(each.records for each in counts),
        "landed": sum(each.outcomes.get("landed", 0) for each in counts),
        "merged": table.merged,
        "repeated": table.repeated,
        "suspended": table.suspended,
    }
