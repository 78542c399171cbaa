"""The driver's loop: refreshes registry and topics, runs databases and timers, plans and writes batches."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from services.writer.batching.batch_size import BatchSizer
from services.writer.batching.unfinished_ranges import Planned
from services.writer.databases import halts
from services.writer.databases.trim import RetentionCleanup
from services.writer.driver.batch import write_batch
from services.writer.driver.collector import StatsCollector
from services.writer.driver.context import Parts, check_fenced
from services.writer.driver.reconcile import Reconciler
from services.writer.driver.resolve_halt import resolve
from services.writer.driver.routes_from_registry import CurrentRoutes, RegistryRefresher, topics_of, unusable
from services.writer.model.interval_timer import Every
from services.writer.model.routes import Routes
from services.writer.postgres.database import Database
from services.writer.settings import WriterSettings
from shared.errors import REGISTRY_UNREAD, InfrastructureError
from shared.kafka_read.offsets import total

#: Shorter than aiokafka's own retries, so that /readyz shows an outage soon.
_KAFKA_SECONDS: Final = 8.0
#: A large registry takes a second; a registry whose leader is down delays no event for longer than this.
_REGISTRY_SECONDS: Final = 2.0
_NO_DATABASE_SECONDS: Final = 0.5
#: A database that does not answer delays a writer's start by this; one that answers is migrated sooner.
_FIRST_TRIES_SECONDS: Final = 2.0


class Loop:
    """Runs until `stop` is set, or until Kafka or a newer writer ends the session with an exception."""

    def __init__(
        self,
        parts: Parts,
        *,
        settings: WriterSettings,
        configured: Sequence[Database],
        refresher: RegistryRefresher,
        collector: StatsCollector,
        stop: asyncio.Event,
        on_turn: Callable[[], None],
    ) -> None:
        """`on_turn` is called after each turn without an error."""
        self._parts = parts
        self._settings = settings
        self._refresher = refresher
        self._collector = collector
        self._stop = stop
        self._on_turn = on_turn
        self._configured = configured
        self._current = CurrentRoutes(configured)
        self._refreshes = Every(settings.discover_ms / 1000, at_once=True)
        self._reconciler = Reconciler(parts, settings.reconcile_seconds)
        self._cleanup = RetentionCleanup(parts.cluster, parts.index, settings.drained_retention_seconds)
        self._batch_sizer = BatchSizer(settings.batch_events, settings.batch_seconds)

    async def run(self) -> None:
        """Write batches while any database is available.  Raises the error that ends the session."""
        routes = await self._refresh()
        self._collector.start()  # not before: without partitions there is no lag
        try:
            await self._turns(routes)
        finally:
            self._update_status()  # the error that ends a session may concern a database

    async def _turns(self, routes: Routes) -> None:
        await self._parts.databases.reconcile(routes)
        await self._parts.databases.wait_first_tries(_FIRST_TRIES_SECONDS)
        while not self._stop.is_set():
            if self._refreshes.is_due():
                routes = await self._refresh()
            await self._parts.databases.reconcile(routes)
            self._update_status()
            await self._tick_cleanup()
            await self._resolve_halts(routes)
            if not self._parts.databases.any_available():
                await self._parts.databases.wait_for_return(_NO_DATABASE_SECONDS)
                continue
            await self._parts.databases.wait_drained()
            await self._reconciler.tick()
            if not await self._batch(routes):
                await wait(self._stop, self._settings.idle_ms / 1000)
            self._on_turn()

    @staticmethod
    def _clock() -> float:
        return asyncio.get_running_loop().time()

    async def _refresh(self) -> Routes:
        """Refresh registry and topics and return the routes.  Raises `InfrastructureError` (FENCED)."""
        await self._refresher.refresh(_REGISTRY_SECONDS)
        registry = self._refresher.registry
        await self._require_known_registry()
        snapshot = registry.snapshot()
        status, databases = self._parts.status, self._parts.databases
        status.update_registry(snapshot.digest, is_valid=registry.is_valid)
        status.update_unusable(unusable(snapshot, self._configured))
        routes = self._current.of(snapshot)
        databases.unconfigured = routes.unconfigured()
        status.update_unknown_databases(databases.unknown())
        async with asyncio.timeout(_KAFKA_SECONDS):
            await self._parts.partitions.discover(topics_of(snapshot), list(snapshot.sources))
            await check_fenced(self._parts)
        self._refreshes.restart()
        return routes

    async def _require_known_registry(self) -> None:
        """Record that the registry has had a change.  Raise `InfrastructureError` if one that had is empty.

        Without its routes and grants, events would land in the default tables.
        """
        topic, plan_log = self._refresher.topic, self._parts.plan_log
        if not self._refresher.registry.is_blank:
            if new := plan_log.registry_entries(topic):
                async with asyncio.timeout(_KAFKA_SECONDS):
                    await self._parts.partitions.record(new)
        elif topic in plan_log.registries:
            lost = f"{topic} is empty, and had changes before: apply the file again"
            raise InfrastructureError(REGISTRY_UNREAD, lost)

    def _update_status(self) -> None:
        status, databases, index = self._parts.status, self._parts.databases, self._parts.index
        status.update(databases.states(), self._parts.partitions.halted)
        status.update_reasons(databases.reasons())
        status.update_holds(databases.holds())
        status.count_replays(databases.replays.take_ended())
        status.update_waiting({n: (index.events(n), index.oldest(n)) for n in databases.names})

    async def _tick_cleanup(self) -> None:
        if not self._parts.databases.drains():
            async with asyncio.timeout(_KAFKA_SECONDS):
                await self._cleanup.tick()

    async def _resolve_halts(self, routes: Routes) -> None:
        for name, resolution in self._parts.databases.pending_resolutions().items():
            work = resolve(self._parts, name, resolution, routes, self._settings.batch_events)
            if resolution == halts.REFILL:  # it needs Spark, so it runs in place of a batch
                await work
            else:
                self._parts.databases.run_in_background(name, work)

    async def _batch(self, routes: Routes) -> bool:
        """Plan a batch and write it; return False when there is nothing to write."""
        ranges, planned_routes = await self._plan(routes)
        if ranges:
            began = self._clock()
            with self._parts.status.batch(), self._parts.databases.replays.live.batch():
                await write_batch(self._parts, ranges, planned_routes)
            self._batch_sizer.record(total(ranges), self._clock() - began)
        return bool(ranges)

    async def _plan(self, routes: Routes) -> Planned:
        partitions = self._parts.partitions
        try:
            async with asyncio.timeout(_KAFKA_SECONDS):
                return await partitions.plan(self._batch_sizer.events, routes)
        except TimeoutError:
            # aiokafka keeps requesting a deleted topic: a timeout alone does not mean that Kafka is down.
            async with asyncio.timeout(_KAFKA_SECONDS):
                before = len(partitions.positions)
                await partitions.drop_recreated_topics()
            if len(partitions.positions) == before:
                raise
            return [], routes


async def wait(stop: asyncio.Event, seconds: float) -> None:
    """Wait for `seconds`, or until `stop` is set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):  # Python 3.11's `wait_for` can lose a cancellation at its end
            await stop.wait()
