"""The driver's loop: look at registry and topics, care for what is not a batch, plan one, write it."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from services.writer.driver.batch import write_batch
from services.writer.driver.collector import StatsCollector
from services.writer.driver.partitions import Planned
from services.writer.driver.parts import Parts, see_newest
from services.writer.driver.reconcile import Reconciler
from services.writer.driver.resolve_halt import resolve
from services.writer.driver.routes_from_registry import CurrentRoutes, topics_of
from services.writer.model.offsets import total
from services.writer.model.routes import Routes
from services.writer.plan.batch_size import BatchSizer
from services.writer.postgres.database import Database
from services.writer.recover import database_halts
from services.writer.recover.trim import RetentionCleanup
from services.writer.settings import WriterSettings
from shared.registry.file import FileRegistry

#: aiokafka goes on asking for longer than anyone who watches /readyz wants to wait.
_KAFKA_SECONDS: Final = 8.0
_NO_DATABASE_SECONDS: Final = 0.5


class Loop:
    """Turns until `stop` is set, or until Kafka or a newer writer ends the session by an exception."""

    def __init__(
        self,
        parts: Parts,
        *,
        settings: WriterSettings,
        configured: Sequence[Database],
        registry: FileRegistry,
        meter: StatsCollector,
        stop: asyncio.Event,
        turned: Callable[[], None],
    ) -> None:
        """`turned` is called after each turn that passed."""
        self._parts = parts
        self._settings = settings
        self._registry = registry
        self._meter = meter
        self._stop = stop
        self._turned = turned
        self._current = CurrentRoutes(configured)
        self._look_at = 0.0
        self._upkeep = Reconciler(parts, settings.upkeep_s)
        self._trimming = RetentionCleanup(parts.positions, parts.index, settings.keep_drained_s)
        self._pace = BatchSizer(settings.batch_events, settings.batch_s)

    async def run(self) -> None:
        """One batch after the other, as long as any database can take one."""
        routes = await self._look()
        while not self._stop.is_set():
            if self._clock() >= self._look_at:
                routes = await self._look()
            await self._parts.databases.tend(routes)
            self._show()
            await self._trim()
            await self._resolve_halts(routes)
            if not self._parts.databases.any_up():
                await self._parts.databases.wait_for_one(_NO_DATABASE_SECONDS)
                continue
            await self._parts.databases.settle_down()
            await self._upkeep.tend()
            if not await self._batch(routes):
                await wait(self._stop, self._settings.idle_ms / 1000)
            self._turned()

    @staticmethod
    def _clock() -> float:
        return asyncio.get_running_loop().time()

    async def _look(self) -> Routes:
        """Today's routes and topics; FENCED when a newer writer has started."""
        await asyncio.to_thread(self._registry.refresh)  # a large one takes a second
        snapshot = self._registry.snapshot()
        self._parts.status.see_registry(snapshot.digest)
        routes = self._current.of(snapshot)
        async with asyncio.timeout(_KAFKA_SECONDS):
            await self._parts.view.discover(topics_of(snapshot))
            await see_newest(self._parts)
        self._look_at = self._clock() + self._settings.discover_ms / 1000
        return routes

    def _show(self) -> None:
        status, databases, index = self._parts.status, self._parts.databases, self._parts.index
        status.see(databases.states(), self._parts.view.lag, self._parts.view.refused)
        status.see_reasons(databases.reasons())
        status.see_holds(databases.holds())
        status.waits({n: (index.events(n), index.oldest(n)) for n in databases.names})
        self._meter.tick()

    async def _trim(self) -> None:
        if not self._parts.databases.drains():
            async with asyncio.timeout(_KAFKA_SECONDS):
                await self._trimming.tend()

    async def _resolve_halts(self, routes: Routes) -> None:
        for name, how in self._parts.databases.to_resolve().items():
            work = resolve(self._parts, name, how, routes, self._settings.batch_events)
            if how == database_halts.REPLAY:  # it needs Spark, as a batch does
                await work
            else:
                self._parts.databases.meanwhile(name, work)

    async def _batch(self, routes: Routes) -> bool:
        """Plan a batch and write it; False when there is nothing to write."""
        ranges, begun_with = await self._plan(routes)
        if ranges:
            began = self._clock()
            with self._parts.status.batch():
                await write_batch(self._parts, ranges, begun_with)
            self._pace.took(total(ranges), self._clock() - began)
        return bool(ranges)

    async def _plan(self, routes: Routes) -> Planned:
        view = self._parts.view
        try:
            async with asyncio.timeout(_KAFKA_SECONDS):
                return await view.plan(self._pace.events, routes)
        except TimeoutError:
            # Of a topic that was deleted aiokafka goes on asking: then Kafka is not away.
            async with asyncio.timeout(_KAFKA_SECONDS):
                stood = len(view.stands)
                await view.let_go_of_other_lives()
            if len(view.stands) == stood:
                raise
            return [], routes


async def wait(stop: asyncio.Event, seconds: float) -> None:
    """Wait so long, or until `stop` is set."""
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
