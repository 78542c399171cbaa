"""Divides the ranges of a batch among the tasks of a job."""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from shared.kafka_read.offsets import Partition, Range, total

#: Minimum number of topics of a task's share if the ranges of each stay together, so that shares stay even.
_SMALL_TOPICS: Final = 8


def shares(ranges: Iterable[Range], tasks: int) -> list[list[Partition]]:
    """Return the partitions of `ranges` for each of `tasks` tasks, with about the same number of events.

    A range is never divided: its ledger row belongs to one task.  A small topic's ranges stay together,
    so that its table is written once.
    """
    dealt: list[list[Partition]] = [[] for _ in range(tasks)]
    heap = [(0, number) for number in range(tasks)]
    for part in sorted(_undivided(list(ranges), tasks), key=total, reverse=True):
        events, number = heapq.heappop(heap)
        dealt[number] += [r.partition for r in part]
        heapq.heappush(heap, (events + total(part), number))
    return dealt


def _undivided(ranges: Sequence[Range], tasks: int) -> Iterator[list[Range]]:
    """Yield the ranges of each small topic together, and each range of a larger topic by itself."""
    by_topic: dict[str, list[Range]] = defaultdict(list)
    for r in ranges:
        by_topic[r.partition.topic].append(r)
    small = total(ranges) / tasks / _SMALL_TOPICS
    for of_topic in by_topic.values():
        if total(of_topic) <= small:
            yield of_topic
        else:
            yield from ([r] for r in of_topic)
