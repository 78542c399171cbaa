"""Jobs of several threads on one Spark context, in FAIR pools: a busy pool delays no other."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from shared.spark.spark_jobs import SparkJobs

T = TypeVar("T")


class PooledJobs(SparkJobs):
    """One Spark context for the jobs of many threads; its settings have `is_fair`."""

    def run_in_pool(self, pool: str, work: Callable[[Iterable[int]], Iterable[T]]) -> T:
        """Run `work` in one task, and return its only result; each thread runs one job at a time.

        Jobs of one pool share their slots with those of other pools evenly.  Raises Spark's errors.
        """
        self._context.setLocalProperty("spark.scheduler.pool", pool)
        self._context.setJobGroup(pool, pool, interruptOnCancel=True)
        [result] = self._tasks(1).mapPartitions(work).collect()
        return result

    def cancel_pool(self, pool: str) -> None:
        """Cancel the running jobs of a pool."""
        self._context.cancelJobGroup(pool)

    def broadcast(self, value: Any) -> Any:
        """Return `value` as a variable that Spark sends to each worker once."""
        return self._context.broadcast(value)
