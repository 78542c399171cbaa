"""The writer's job on Spark: the ranges of one batch, divided among tasks.

Spark makes no decisions: the driver's loop gives the ranges, and the ledgers are the source of truth.
"""

import functools
from dataclasses import replace

from services.writer.driver import worker_daemon
from services.writer.model import connection_budget
from services.writer.settings import WriterSettings
from services.writer.settle.task import settle_share
from services.writer.settle.work_order import TaskReport, WorkOrder
from shared.kafka_read.offsets import total
from shared.kafka_read.shares import shares
from shared.spark.spark_jobs import SparkJobs, SparkSettings


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
