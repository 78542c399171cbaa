"""Lane runs as Spark jobs: one job with one task for each run, in the FAIR pool of its transform."""

import functools
from collections.abc import Mapping
from typing import Protocol

from services.transform.driver import worker_daemon
from services.transform.function.lookups import LookupTable
from services.transform.function.transform_code import TransformCode
from services.transform.lane.order import LaneOrder, LaneReport
from services.transform.lane.spark_task import Shared, run_lane
from services.transform.settings import TransformSettings
from shared.spark.pooled_jobs import PooledJobs
from shared.spark.spark_jobs import SparkSettings


class Jobs(Protocol):
    """The part of Spark that the driver's loop uses."""

    @property
    def slots(self) -> int:
        """The number of runs that have a slot at a time."""

    def run(self, order: LaneOrder, code: TransformCode, lookups: Mapping[str, Shared]) -> LaneReport:
        """Run a lane and return its report.  Blocks; raises Spark's errors, also after `cancel_transform`."""

    def cancel_transform(self, transform: str) -> None:
        """Cancel the runs of a transform; their transactions are aborted."""

    def share(self, table: LookupTable) -> Shared:
        """Send a table to the workers."""

    def is_alive(self) -> bool:
        """Return whether the JVM still answers."""


class LaneJobs(PooledJobs):
    """The transforms' Spark context."""

    def __init__(self, settings: TransformSettings) -> None:
        """Start the context: a JVM, which takes seconds."""
        super().__init__(
            SparkSettings(
                app_name="onramp-transform",
                master=settings.master,
                driver_memory=settings.driver_memory,
                worker_daemon=worker_daemon.__name__,
                is_fair=True,
            )
        )

    def run(self, order: LaneOrder, code: TransformCode, lookups: Mapping[str, Shared]) -> LaneReport:
        """Run a lane and return its report (`Jobs.run`)."""
        return self.run_in_pool(order.name, functools.partial(run_lane, order, code, dict(lookups)))

    def cancel_transform(self, transform: str) -> None:
        """Cancel the runs of a transform (`Jobs.cancel_transform`)."""
        self.cancel_pool(transform)

    def share(self, table: LookupTable) -> Shared:
        """Broadcast a table (`Jobs.share`)."""
        shared: Shared = self.broadcast(table)
        return shared
