"""The writer's job on Spark: the ranges of one batch, divided among tasks.

Spark makes no decisions: the driver's loop gives the ranges, and the ledgers are the source of truth.
"""

import functools
import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from services.writer.driver import worker_daemon
from services.writer.model import connection_budget
from services.writer.settings import WriterSettings
from services.writer.settle.task import settle_share
from services.writer.settle.work_order import TaskReport, WorkOrder
from shared.kafka_read.offsets import Partition, Range, total
from shared.spark.spark_jobs import SparkJobs, SparkSettings

#: Minimum number of topics of a task's share if the ranges of each stay together, so that shares stay even.
_SMALL_TOPICS: Final = 8


class Spark(SparkJobs):
    """The writer's Spark context, and the job of a batch."""

    def __init__(self, settings: WriterSettings) -> None:
        """Start the context: a JVM, which takes seconds."""
        super().__init__(
            SparkSettings(
                app_name="onramp-writer",
                master=settings.master,
                driver_memory=settings.driver_memory,
                worker_daemon=worker_daemon.__name__,
            )
        )

    def run(self, order: WorkOrder) -> list[TaskReport]:
        """Settle `order` in one job and return its tasks' reports.  Blocks; raises Spark's errors."""
        slots = self.slots
        # Workers of other slots may still have connections: if not all fit, no worker keeps its own.
        needed = connection_budget.max_connections(slots)
        landing = tuple(replace(d, keep=(d.max_connections or needed) >= needed) for d in order.landing)
        order = replace(order, landing=landing)
        ranges, bounds = list(order.ranges.values()), [d.max_connections for d in order.landing]
        tasks = connection_budget.tasks(total(ranges), len(ranges), slots, bounds)
        return self.collect(functools.partial(settle_share, order, shares(ranges, tasks)), tasks)


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
