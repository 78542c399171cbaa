"""Partitions, their topic generations and offset ranges; and the fair share of partitions in a batch."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Partition(NamedTuple):
    """A partition, identified by its topic's name and its number."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.number}"


class Generation(NamedTuple):
    """A partition of one topic generation, which Kafka's UUID `topic_id` identifies.

    The offsets of a topic that was deleted and recreated under the same name start at 0 again, so the
    ledger must distinguish the generations.
    """

    topic_id: str
    partition: Partition


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets `start` (included) to `end` (excluded) of one partition of one topic generation."""

    topic_id: str
    partition: Partition
    start: int
    end: int

    @property
    def generation(self) -> Generation:
        """The partition and topic generation of these offsets."""
        return Generation(self.topic_id, self.partition)

    def covers(self, other: "Range") -> bool:
        """Return whether all of `other` is within this range."""
        return self.generation == other.generation and self.start <= other.start and other.end <= self.end

    def __len__(self) -> int:
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.partition} [{self.start}, {self.end})"


def share(backlog: Mapping[Partition, tuple[int, int]], limit: int) -> dict[Partition, tuple[int, int]]:
    """Return at most `limit` offsets of `backlog` (partition to start and end), chosen fairly.

    Small backlogs are included whole and the rest is split evenly among the others, so that
    a hot partition starves no other (max-min fairness).
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
