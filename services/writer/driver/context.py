"""The parts of a writer that a batch uses, and the steps that a batch and resolving a halt share."""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from services.writer.batching.row_rates import RateLimiter
from services.writer.databases.database_states import Databases
from services.writer.databases.diverted_index import DivertedIndex
from services.writer.databases.retire import Retire
from services.writer.driver.partition_tracker import PartitionTracker
from services.writer.driver.spark import Spark
from services.writer.kafka.cluster import Cluster
from services.writer.model.routes import Routes
from services.writer.observe.status import Status
from services.writer.park.diverted_topic import EmptyRanges, RangeMarker, closing_records
from services.writer.partitions.plan_log import PlanLog, Totals
from services.writer.partitions.quarantine import Strikes
from services.writer.postgres.database import Database
from services.writer.settle.event_type_pauses import PausePolicy
from services.writer.settle.work_order import TaskReport, WorkOrder
from shared import failpoints
from shared.errors import FENCED, InfrastructureError
from shared.kafka_read.offsets import Range
from shared.kafka_security import Brokers
from shared.path_steps import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a writer that a batch uses."""

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
    event_lines: int
    retire: Retire
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
        """Return an order that lands `ranges` in `landing` and diverts them for the databases `diverted`.

        Events for the databases `elsewhere` are ignored; an event for any other database is an error.
        """
        return WorkOrder(
            epoch=self.epoch,
            ranges={r.partition: r for r in ranges},
            landing=landing,
            diverted=diverted,
            routes=routes,
            brokers=self.brokers,
            pause_policy=self.pause_policy,
            event_lines=self.event_lines,
            elsewhere=elsewhere,
        )


def undecided(parts: Parts, topics: Collection[str] | None = None) -> dict[tuple[Step, str, str], int]:
    """Return the totals that no database counts, of the topics' current generations; 0 if none."""
    counts: Counter[tuple[Step, str, str]] = Counter()
    for p, position in parts.databases.positions.items():
        if topics is None or p.topic in topics:
            totals = parts.plan_log.totals.get((position.topic_id, p.number), Totals())
            counts[Step.FILTER, p.topic, "filtered"] += totals.filtered
            counts[Step.SORT, p.topic, "unroutable"] += totals.unroutable
            counts[Step.SORT, p.topic, "refused"] += totals.refused
    return dict(counts)


F = TypeVar("F", bound=Callable[..., Awaitable[Any]])


def phase(name: str) -> Callable[[F], F]:
    """Return a decorator that counts a step's time as phase `name` of the batch."""

    def timed(step: F) -> F:
        async def run(parts: Parts, *arguments: Any) -> Any:
            with parts.status.phase(name):
                return await step(parts, *arguments)

        return cast("F", run)

    return timed


async def check_fenced(parts: Parts) -> None:
    """Raise `InfrastructureError` (FENCED) when Kafka has the epoch of a newer writer.  One request."""
    newest = await parts.cluster.newest_epoch(parts.epoch)
    if newest > parts.epoch:
        raise InfrastructureError(FENCED, f"writer {newest} is the newest, this is {parts.epoch}")


@phase("mark")
async def mark(parts: Parts, order: WorkOrder, reports: Sequence[TaskReport]) -> None:
    """Close every diverted range, empty ranges included, after Kafka has acknowledged its records.

    The model's rules `records_first` and `empty_marker`.
    """
    failpoints.reach("writer.between_divert_and_marker")
    await _close(parts, closing_records(_markers(order, reports)))


@phase("mark")
async def mark_each(parts: Parts, order: WorkOrder, reports: Sequence[TaskReport]) -> None:
    """Close each diverted range by a marker of its own, behind the markers that it replaces."""
    failpoints.reach("writer.between_divert_and_marker")
    await _close(parts, _markers(order, reports))


def _markers(order: WorkOrder, reports: Sequence[TaskReport]) -> list[RangeMarker]:
    diverted = {(report.database, report.range_of): report for report in reports}
    markers = []
    for name in order.diverted:
        for p, r in order.ranges.items():
            report = diverted.get((name, p))
            count, first = (report.diverted, report.diverted_from) if report else (0, -1)
            markers.append(RangeMarker(name, r, count=count, first=first, digest=order.routes.digest))
    return markers


async def _close(parts: Parts, markers: Sequence[RangeMarker | EmptyRanges]) -> None:
    acknowledged = await parts.cluster.append([marker.as_record() for marker in markers])
    for marker, metadata in zip(markers, acknowledged, strict=True):
        parts.index.add(marker, metadata, time.time())
