"""The lake's job on Spark: the ranges of one batch, divided among tasks."""

import functools
from typing import Final, Protocol

from services.lake.driver import worker_daemon
from services.lake.settings import LakeSettings
from services.lake.task.land import land_share
from services.lake.task.order import LakeOrder, LakeReport
from shared.kafka_read.offsets import total
from shared.kafka_read.shares import shares
from shared.spark.spark_jobs import SparkJobs, SparkSettings

#: Minimum events for a second task, which otherwise costs more than it saves.
_ONE_TASK_BELOW: Final = 5_000


class Jobs(Protocol):
    """The part of Spark that the driver's loop uses."""

    def run(self, order: LakeOrder) -> list[LakeReport]:
        """Land `order` in one job and return its tasks' reports.  Blocks; raises Spark's errors."""

    def is_alive(self) -> bool:
        """Return whether the JVM still answers."""


class LakeSpark(SparkJobs):
    """The lake's Spark context, and the job of a batch."""

    def __init__(self, settings: LakeSettings) -> None:
        """Start the context: a JVM, which takes seconds."""
        super().__init__(
            SparkSettings(
                app_name="onramp-lake",
                master=settings.master,
                driver_memory=settings.driver_memory,
                worker_daemon=worker_daemon.__name__,
            )
        )

    def run(self, order: LakeOrder) -> list[LakeReport]:
        """Land `order` in one job (`Jobs.run`)."""
        ranges = list(order.ranges.values())
        tasks = 1 if total(ranges) < _ONE_TASK_BELOW else min(self.slots, len(ranges))
        return self.collect(functools.partial(land_share, order, shares(ranges, tasks)), tasks)
