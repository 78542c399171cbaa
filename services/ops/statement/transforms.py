"""Transforms in a statement: a reading of their totals, and the lines between two readings."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from services.ops.statement.reading import StoredReading
from services.ops.transforms.reader import TransformFacts
from shared import wire

#: The outcomes of a source record, which exclude each other.
OUTCOMES: Final = ("emitted", "dropped", "filtered", "parked")
_COUNTS: Final = (*OUTCOMES, "outputs", "skipped")


class PartitionReading(msgspec.Struct):
    """A transform in one partition of a topic generation: its next offset, and its counts up to it."""

    transform: str
    topic: str
    partition: int
    topic_id: str
    first: int
    next: int
    counts: dict[str, int]

    @property
    def key(self) -> tuple[str, str, int, str]:
        """Return what the readings of two times have in common."""
        return self.transform, self.topic, self.partition, self.topic_id


class TransformsReading(StoredReading):
    """All transforms at one time; `lag`: events that are not processed, by transform."""

    partitions: list[PartitionReading]
    lag: dict[str, int] = msgspec.field(default_factory=dict)


def reading_of(facts: TransformFacts, at: datetime) -> TransformsReading:
    """Return the reading of facts."""
    partitions = []
    for record in facts.records:
        if record.transform == wire.PROBE_EVENT:
            continue  # of tracers, as their topic is excluded
        totals, (topic, number) = record.position.totals, record.partition
        counts = {name: getattr(totals, name) for name in _COUNTS}
        partitions.append(
            PartitionReading(
                record.transform, topic, number, totals.topic_id, totals.first, record.position.next, counts
            )
        )
    lag = {name: each.lag for name, each in facts.totals.items() if each.lag is not None}
    return TransformsReading(at, partitions, lag)


@dataclass(slots=True)
class TransformLine:
    """One transform in a period: offsets of its source that it has passed, and its outcomes."""

    transform: str
    topics: list[str]
    offsets: int
    skipped: int
    outcomes: dict[str, int]
    outputs: int
    #: None for a period that has ended.
    lag: int | None

    @property
    def read(self) -> int:
        """Return the records with an outcome."""
        return sum(self.outcomes.values())

    @property
    def without_record(self) -> int:
        """Return the offsets without an outcome: transaction markers and records that Kafka compacted."""
        return self.offsets - self.skipped - self.read

    @property
    def adds_up(self) -> bool:
        """Return whether no record has two outcomes, and each emitted one an output."""
        return self.without_record >= 0 and self.outputs >= self.outcomes["emitted"]

    @property
    def difference(self) -> str:
        """Return the sentence of a line that does not add up."""
        offsets, emitted = self.offsets - self.skipped, self.outcomes["emitted"]
        return (
            f"transform {self.transform}: {offsets:,} offsets have {self.read:,} outcomes, "
            f"and {emitted:,} emitted events have {self.outputs:,} outputs"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        return {
            "transform": self.transform,
            "topics": self.topics,
            "read": self.read,
            **self.outcomes,
            "outputs": self.outputs,
            "lag": self.lag,
            "skipped": self.skipped,
            "offsets_without_record": self.without_record,
            "adds_up": self.adds_up,
        }


def lines_of(
    first: TransformsReading | None,
    last: TransformsReading,
    shows: Callable[[str], bool],
    *,
    is_live: bool,
) -> Iterator[TransformLine]:
    """Yield a line for each transform of the topics that `shows` accepts; without `first` from its beginning.

    Raise `ValueError` if a count is lower than at the start of the period.
    """
    before = {each.key: each for each in first.partitions} if first else {}
    by_name: dict[str, list[PartitionReading]] = {}
    for each in last.partitions:
        by_name.setdefault(each.transform, []).append(_growth(before.get(each.key), each))
    for name, partitions in sorted(by_name.items()):
        if any(shows(each.topic) for each in partitions):
            yield _line(name, partitions, last.lag.get(name) if is_live else None)


def _growth(before: PartitionReading | None, now: PartitionReading) -> PartitionReading:
    if before is None:
        return now
    counts = {name: now.counts.get(name, 0) - before.counts.get(name, 0) for name in _COUNTS}
    if now.next < before.next or min(counts.values()) < 0:
        raise ValueError(
            f"a count of {now.transform} in {now.topic}/{now.partition} is lower than at the period's start"
        )
    return msgspec.structs.replace(now, first=before.next, counts=counts)


def _line(name: str, partitions: Iterable[PartitionReading], lag: int | None) -> TransformLine:
    every = list(partitions)

    def total(count: str) -> int:
        return sum(each.counts.get(count, 0) for each in every)

    return TransformLine(
        transform=name,
        topics=sorted({each.topic for each in every if each.next > each.first}),
        offsets=sum(each.next - each.first for each in every),
        skipped=total("skipped"),
        outcomes={outcome: total(outcome) for outcome in OUTCOMES},
        outputs=total("outputs"),
        lag=lag,
    )
