"""Partitions, their incarnations and ranges of offsets; and the fair share of partitions in a batch."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Partition(NamedTuple):
    """A topic's partition, by the topic's name."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.number}"


class Incarnation(NamedTuple):
    """A partition of one incarnation of its topic, which is identified by Kafka's UUID `topic_id`.

    A topic that was deleted and recreated under the same name starts its offsets again, and the
    ledger must not take one for the other.
    """

    topic_id: str
    partition: Partition


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets `start` (included) to `end` (excluded) of one partition of one incarnation of a topic."""

    topic_id: str
    partition: Partition
    start: int
    end: int

    @property
    def incarnation(self) -> Incarnation:
        """The incarnation of which these are offsets."""
        return Incarnation(self.topic_id, self.partition)

    def covers(self, other: "Range") -> bool:
        """Return whether all of `other` is within this range."""
        return self.incarnation == other.incarnation and self.start <= other.start and other.end <= self.end

    def __len__(self) -> int:
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.partition} [{self.start}, {self.end})"


def share(backlog: Mapping[Partition, tuple[int, int]], limit: int) -> dict[Partition, tuple[int, int]]:
    """Choose at most `limit` offsets of `backlog` (partition to start and end), fairly.

    Small backlogs are taken whole and the rest is split evenly among the others, so that
    a hot partition starves none (max-min fairness).
    """
    shares: dict[Partition, tuple[int, int]] = {}
    left = limit
    waiting = sorted(((end - start, p) for p, (start, end) in backlog.items() if end > start))
    for position, (size, partition) in enumerate(waiting):
        take = min(size, max(left // (len(waiting) - position), 0))
        start = backlog[partition][0]
        if take:
            shares[partition] = (start, start + take)
        left -= take
    return shares


def total(ranges: Iterable[Range]) -> int:
    """Return the number of offsets in all `ranges`."""
    return sum(len(r) for r in ranges)
