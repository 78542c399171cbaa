"""What a batch works with, and the steps that resolving a halted database shares with it."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from services.writer.driver.partitions import PartitionTracker
from services.writer.driver.spark import Spark
from services.writer.kafka.cluster import Cluster
from services.writer.model.offsets import Range
from services.writer.model.routes import Routes
from services.writer.observe.status import Status
from services.writer.park.diverted_topic import EmptyRanges, RangeMarker, closing_records
from services.writer.partitions.plan_log import PlanLog
from services.writer.partitions.set_aside import Strikes
from services.writer.plan.row_rates import RateLimiter
from services.writer.postgres.database import Database
from services.writer.recover.databases import Databases
from services.writer.recover.diverted_index import DivertedIndex
from services.writer.settle.pause_policy import PausePolicy
from services.writer.settle.work_order import TaskReport, WorkOrder
from shared import failpoints
from shared.errors import FENCED, InfrastructureError
from shared.kafka_security import Brokers


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a batch works with."""

    spark: Spark
    cluster: Cluster
    databases: Databases
    plan_log: PlanLog
    index: DivertedIndex
    partitions: PartitionTracker
    brokers: Brokers
    epoch: int
    status: Status
    rate_limiter: RateLimiter
    pause_policy: PausePolicy
    log_events: bool
    #: Up to so many events of a batch are read by the driver.
    small_batch: int
    strikes: Strikes = field(default_factory=Strikes)

    def order(
        self,
        ranges: Sequence[Range],
        routes: Routes,
        *,
        landing: tuple[Database, ...] = (),
        diverted: tuple[str, ...] = (),
        elsewhere: tuple[str, ...] = (),
    ) -> WorkOrder:
        """Land `ranges` in the databases of `landing`, and divert them for those of `diverted`.

        Events for `elsewhere` are left alone; there are none for any other database.
        """
        return WorkOrder(
            self.epoch,
            {r.partition: r for r in ranges},
            landing,
            diverted,
            routes,
            self.brokers,
            self.pause_policy,
            self.log_events,
            elsewhere,
        )


F = TypeVar("F", bound=Callable[..., Awaitable[Any]])


def phase(name: str) -> Callable[[F], F]:
    """Time a phase of the batch."""

    def timed(step: F) -> F:
        async def run(parts: Parts, *arguments: Any) -> Any:
            with parts.status.phase(name):
                return await step(parts, *arguments)

        return cast("F", run)

    return timed


async def check_fenced(parts: Parts) -> None:
    """Raises `InfrastructureError` (FENCED) when a newer writer has started."""
    newest = await parts.cluster.newest_epoch(parts.epoch)
    if newest > parts.epoch:
        raise InfrastructureError(FENCED, f"writer {newest} is the newest, this is {parts.epoch}")


@phase("mark")
async def mark(parts: Parts, order: WorkOrder, lines: Sequence[TaskReport]) -> None:
    """Close every diverted range, empty ones included, now that Kafka holds its records."""
    failpoints.reach("writer.between_divert_and_marker")
    await _close(parts, closing_records(_markers(order, lines)))


@phase("mark")
async def mark_each(parts: Parts, order: WorkOrder, lines: Sequence[TaskReport]) -> None:
    """The same, and each by a marker of its own: it stands behind those that it replaces."""
    failpoints.reach("writer.between_divert_and_marker")
    await _close(parts, _markers(order, lines))


def _markers(order: WorkOrder, lines: Sequence[TaskReport]) -> list[RangeMarker]:
    diverted = {(line.database, line.range_of): line for line in lines}
    markers = []
    for name in order.diverted:
        for p, r in order.ranges.items():
            line = diverted.get((name, p))
            count, first = (line.diverted, line.diverted_from) if line else (0, -1)
            markers.append(RangeMarker(name, r, count, first, order.routes.digest))
    return markers


async def _close(parts: Parts, found: Sequence[RangeMarker | EmptyRanges]) -> None:
    places = await parts.cluster.append([each.as_record() for each in found])
    for each, place in zip(found, places, strict=True):
        parts.index.add(each, place, time.time())
