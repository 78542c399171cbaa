"""The driver's loop: refreshes registry and partitions, plans batches, lands and settles them."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from services.lake.driver.kafka_cluster import LakeCluster
from services.lake.driver.lake_log import LakeLog, PlannedRange
from services.lake.driver.partitions import Partitions
from services.lake.driver.spark import Jobs
from services.lake.observe.status import LakeStatus
from services.lake.routes.lake_routes import LakeRoutes, routes_of, starts_of
from services.lake.settings import LakeSettings
from services.lake.task.order import LakeOrder, LakeReport
from services.lake.waits import Wait
from shared import failpoints
from shared.errors import LAKE_UNAVAILABLE, TABLE, InfrastructureError
from shared.kafka_read.offsets import Partition, Range, share
from shared.kafka_security import Brokers
from shared.lake.lake_topic import PositionKey
from shared.lake.storage import Storage
from shared.lake.transactions import TablePosition
from shared.registry import Registry, Snapshot

log = logging.getLogger(__name__)

_KAFKA_SECONDS: Final = 20.0
_RETENTION_SECONDS: Final = 60.0
_UNREADABLE: Final = "unreadable"

T = TypeVar("T")
Batch = tuple[dict[Partition, Range], LakeRoutes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a session."""

    settings: LakeSettings
    storage: Storage
    brokers: Brokers
    owner: str
    registry: Registry
    jobs: Jobs
    cluster: LakeCluster
    lake_log: LakeLog
    partitions: Partitions
    status: LakeStatus
    stop: asyncio.Event


class Loop:
    """One session of the driver."""

    def __init__(self, parts: Parts, on_turn: Callable[[], None]) -> None:
        """`on_turn` is called after each turn without an error."""
        self._parts = parts
        self._on_turn = on_turn
        self._routes: tuple[Snapshot, LakeRoutes] | None = None
        self._batch_at = time.monotonic() - parts.settings.batch_seconds
        self._retentions_at = 0.0

    async def run(self) -> None:
        """Land batches until stopped.  Raise the error that ends the session."""
        while not self._parts.stop.is_set():
            routes = await self._refresh()
            batch = self._due(routes) if routes is not None else None
            if batch is not None:
                await self.land(*batch)
            else:
                await self._wait()
            self._on_turn()

    async def _wait(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._parts.settings.poll_ms / 1000):
                await self._parts.stop.wait()

    async def _refresh(self) -> LakeRoutes | None:
        """Refresh the registry, partitions and status; return the routes, None before the first registry."""
        parts = self._parts
        await asyncio.to_thread(parts.registry.refresh)
        if not parts.registry.is_read:
            parts.status.trouble = "the registry has not been read"
            return None
        if parts.registry.is_blank and parts.lake_log.starts:
            # With ONRAMP_LAKE_ALL events would land in tables of other names.
            parts.status.trouble = "the registry is empty, and had tables of the lake: apply the file again"
            return None
        snapshot = parts.registry.snapshot()
        if self._routes is None or self._routes[0] is not snapshot:
            self._routes = snapshot, routes_of(snapshot, is_all=parts.settings.all)
        routes = self._routes[1]
        async with asyncio.timeout(_KAFKA_SECONDS):
            await parts.partitions.refresh(routes, starts_of(snapshot))
            if time.monotonic() - self._retentions_at >= _RETENTION_SECONDS:
                topics = {p.topic for p in parts.partitions.ends}
                parts.status.retentions = await parts.cluster.retentions(topics)
                self._retentions_at = time.monotonic()
        parts.status.trouble = ""
        partitions = parts.partitions
        parts.status.show(
            partitions.ends, partitions.next_offsets(), partitions.waiting, partitions.take_lost()
        )
        return routes

    def _due(self, routes: LakeRoutes) -> Batch | None:
        """Return the next batch: first ranges that a plan has begun, under its routes, then new ones."""
        now, settings, partitions = time.monotonic(), self._parts.settings, self._parts.partitions
        if unfinished := partitions.due(now):
            return self._planned(unfinished)
        backlog = partitions.backlog(now)
        waiting = sum(end - start for start, end in backlog.values())
        is_time = now - self._batch_at >= settings.batch_seconds
        if not waiting or (waiting < settings.batch_events and not is_time):
            return None
        chosen = share(backlog, settings.batch_events)
        return {p: partitions.range_of(p, *each) for p, each in chosen.items()}, routes

    def _planned(self, unfinished: Sequence[PlannedRange]) -> Batch:
        """Return the planned ranges with the routes of the first."""
        digest = unfinished[0].digest
        routes = self._parts.lake_log.routes.get(digest)
        if routes is None:
            raise InfrastructureError(LAKE_UNAVAILABLE, f"onramp.lake has lost the routes {digest} of a plan")
        return {each.range.partition: each.range for each in unfinished if each.digest == digest}, routes

    async def land(self, ranges: Mapping[Partition, Range], routes: LakeRoutes) -> None:
        """Plan `ranges`, land them in their tables, and settle those whose tables have taken all rows.

        Invariant: the plan is on Kafka before the first commit to a table, and the group's offsets follow the
        commits.  So a driver that repeats a batch repeats its ranges under the same routes, and the tables
        skip the rows that they have.
        """
        parts = self._parts
        self._batch_at = time.monotonic()
        entries = parts.lake_log.plan_entries(list(ranges.values()), routes, parts.partitions.carried(ranges))
        await parts.cluster.producer.commit(entries)
        parts.lake_log.apply(entries)
        failpoints.reach("lake.planned")
        with parts.status.batch():
            reports = await self._land(ranges, routes)
            failpoints.reach("lake.landed")
            for report in reports:
                if report.failure is not None:
                    raise InfrastructureError(TABLE[report.failure], report.detail)
            await self._settle(ranges, reports)

    async def _land(self, ranges: Mapping[Partition, Range], routes: LakeRoutes) -> list[LakeReport]:
        """Run the batch; if it fails with an unexpected error, run each range in a job of its own."""
        parts = self._parts
        order = LakeOrder(
            ranges=ranges,
            routes=routes,
            brokers=parts.brokers,
            storage=parts.storage,
            owner=parts.owner,
            flush_bytes=parts.settings.flush_bytes,
            starts=_of(ranges, parts.lake_log.starts),
            positions=_of(ranges, parts.lake_log.positions),
        )
        try:
            return await asyncio.to_thread(parts.jobs.run, order)
        except Exception as e:
            if not await asyncio.to_thread(parts.jobs.is_alive):
                raise
            reason = type(e).__name__
            log.error("a batch failed; repeating its ranges one by one", extra={"reason": reason})  # noqa: TRY400
        if len(ranges) == 1:
            self._make_wait(next(iter(ranges)), "", "internal", reason)
            return []
        reports: list[LakeReport] = []
        for p, r in ranges.items():
            reports += await self._land({p: r}, routes)
        return reports

    async def _settle(self, ranges: Mapping[Partition, Range], reports: Sequence[LakeReport]) -> None:
        """Record the tables' positions and commit the offsets of complete ranges, in one transaction."""
        parts = self._parts
        positions: dict[PositionKey, TablePosition] = {}
        failures: dict[str, tuple[str, str]] = {}
        for report in reports:
            for table in report.tables:
                positions |= table.positions
                if table.failure is not None:
                    failures[table.table] = (table.failure, table.detail)
        every = [each for report in reports for each in report.ranges]
        complete = {each.partition for each in every if not each.failed_table and not each.unreadable}
        settled = {p: r for p, r in ranges.items() if p in complete}
        entries = parts.lake_log.position_entries(positions)
        if entries or settled:
            offsets = {p: (r.end, r.topic_id) for p, r in settled.items()}
            await parts.cluster.producer.commit(entries, offsets)
        failpoints.reach("lake.settled")
        parts.lake_log.apply(entries)
        parts.partitions.settle(settled)
        for each in every:
            if each.failed_table:
                self._make_wait(each.partition, each.failed_table, *failures[each.failed_table])
            elif each.unreadable:
                self._make_wait(each.partition, "", _UNREADABLE, each.unreadable)
        parts.status.count(reports)

    def _make_wait(self, partition: Partition, table: str, code: str, detail: str) -> None:
        retry_at = time.monotonic() + self._parts.settings.batch_seconds
        self._parts.partitions.wait(partition, Wait(table, code, detail, retry_at))


def _of(ranges: Mapping[Partition, Range], entries: Mapping[PositionKey, T]) -> dict[PositionKey, T]:
    """Return the entries of the partitions in `ranges`."""
    wanted = {(r.topic_id, p.number) for p, r in ranges.items()}
    return {key: value for key, value in entries.items() if (key.topic_id, key.partition) in wanted}
