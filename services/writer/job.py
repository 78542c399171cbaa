"""The writer's process: constructs the parts, turns the loop, stops in reverse order.

Everything that can be away for a while (Kafka, the database) is retried here, with a
growing pause; a writer that was fenced by a newer one exits.
"""

import asyncio
import logging
import signal
from contextlib import AsyncExitStack, suppress
from typing import Final

from aiokafka.errors import KafkaError

from services.writer import halts
from services.writer.aside import Strikes
from services.writer.batch import Parts, see_newest, write_batch
from services.writer.databases import Databases
from services.writer.divert import Empty, Marker, head_of
from services.writer.drainer import Drainer
from services.writer.ends import EXIT_FAILED, EXIT_STOPPED, code_of, ends
from services.writer.meter import Meter
from services.writer.pace import Pace
from services.writer.pauses import pause
from services.writer.pausing import Pausing
from services.writer.positions import Positions
from services.writer.postgres import configured
from services.writer.publishing import Place
from services.writer.ranges import total
from services.writer.rates import Rates
from services.writer.registry_routes import CurrentRoutes, only_known, topics_of
from services.writer.resolve import resolve
from services.writer.routes import Routes
from services.writer.settings import WriterSettings
from services.writer.settled import Settled
from services.writer.sizes import Sizes
from services.writer.spark import Spark
from services.writer.standby import stand_by
from services.writer.status import Status, StatusServer
from services.writer.trimming import Trimming
from services.writer.turns import Turns
from services.writer.upkeep import Upkeep
from services.writer.view import Planned, View
from services.writer.waiting import Index
from shared import wire
from shared.errors import FENCED, KAFKA_UNAVAILABLE, InfrastructureError
from shared.registry.file import FileRegistry
from shared.settings import KafkaSettings, RegistrySettings

log = logging.getLogger(__name__)

#: aiokafka goes on asking for longer than anyone who watches /readyz wants to wait.
_KAFKA_SECONDS: Final = 8.0
_NO_DATABASE_SECONDS: Final = 0.5


class Job:
    """The driver's loop."""

    def __init__(self, settings: WriterSettings, kafka: KafkaSettings, registry: RegistrySettings) -> None:
        self._settings = settings
        self._kafka = kafka
        self._configured = configured(settings)
        self._registry = FileRegistry(registry.file, only_known(self._configured), named=registry.named)
        self._pausing = Pausing(settings.pause_share, settings.pause_window, settings.pause_least)
        self._status = Status()
        self._strikes = Strikes()
        self._stop = asyncio.Event()
        self._failures = 0
        self._epoch: int | None = None

    async def run(self) -> int:
        """Run until SIGTERM or SIGINT (0), or until it must end (`ends`)."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        async with AsyncExitStack() as stack:
            server = StatusServer(self._status, self._settings.http_host, self._settings.http_port).start()
            stack.callback(server.stop)
            # Spark last in, first out: a job that still runs must not outlive the driver's word.
            spark = await asyncio.to_thread(Spark, self._settings, self._kafka.brokers)
            stack.push_async_callback(asyncio.to_thread, spark.stop)
            work = asyncio.create_task(self._work(spark))
            await self._until_stopped(work, spark)
            with suppress(asyncio.CancelledError):
                return await work
        return EXIT_STOPPED

    async def _until_stopped(self, work: "asyncio.Task[int]", spark: Spark) -> None:
        """Wait for the work's end; after SIGTERM it has its margin, then its batch is cancelled."""
        stop = asyncio.create_task(self._stop.wait())
        await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if not work.done():
            await asyncio.wait({work}, timeout=self._settings.stop_margin_s)
        if not work.done():
            log.warning("the batch did not end in time and is cancelled: it rolls back")
            spark.cancel()
            work.cancel()

    async def _work(self, spark: Spark) -> int:
        """Start and turn the loop, again and again, until stopped or fenced."""
        while not self._stop.is_set():
            try:
                await self._session(spark)
            except InfrastructureError as e:
                if ends(e):
                    return code_of(e)
                await self._pause(e.fault.code, e.detail)
            except (KafkaError, TimeoutError) as e:
                await self._pause(KAFKA_UNAVAILABLE.code, repr(e))
            except Exception as e:
                if self._stop.is_set():
                    return EXIT_STOPPED
                if not await asyncio.to_thread(spark.is_alive):
                    log.exception(
                        "Spark's JVM is gone: the writer ends, whoever supervises it starts another"
                    )
                    return EXIT_FAILED
                log.exception("the batch failed for a reason that the writer does not know")
                await self._pause("internal", type(e).__name__)
        return EXIT_STOPPED

    async def _pause(self, code: str, detail: str) -> None:
        """Say what stands in the way and wait, longer each time, unless stopped."""
        self._status.trouble(code, detail)
        seconds = pause(self._failures)
        self._failures += 1
        log.warning(
            "the writer waits", extra={"code": code, "reason": detail, "again_in_s": round(seconds, 1)}
        )
        await self._wait(seconds)

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)

    async def _session(self, spark: Spark) -> None:
        """From group offsets and epoch to the loop; left when stopped or when something fails."""
        async with AsyncExitStack() as stack:
            positions = Positions(self._kafka, self._settings.topics)
            stack.push_async_callback(positions.stop)
            await positions.start()
            await positions.own_topics.ensure()
            self._status.warning = ""
            asked = self._configured if self._settings.standby else []
            if await stand_by(stack, asked, positions, self._status, self._stop):
                self._epoch = None  # no successor of this one is alive
            if self._stop.is_set():
                return
            parts = await self._take_over(positions, spark)
            stack.push_async_callback(parts.databases.stop)
            log.info("the writer takes over", extra={"epoch": parts.epoch})
            meter = Meter(parts, self._settings.metrics_s)
            stack.push_async_callback(meter.stop)
            await self._loop(parts, meter)

    async def _take_over(self, positions: Positions, spark: Spark) -> Parts:
        """Group offsets, epoch, what the predecessors left: in this order (the model's rules)."""
        group = await positions.group_offsets()
        self._epoch = epoch = await self._next_epoch(positions)
        settled, index = Settled(), Index()
        async for record in positions.log(wire.SETTLED):
            settled.upto = record.offset + 1
            if not settled.read(record.key, record.value):
                positions.foreign.pass_over(wire.SETTLED, record.partition, record.offset)
        async for record in positions.log(wire.SYSTEM_ERRORS):
            head = head_of(dict(record.headers))
            if head is None:
                positions.foreign.pass_over(wire.SYSTEM_ERRORS, record.partition, record.offset)
            elif isinstance(head, (Marker, Empty)):
                index.add(head, Place(record.partition, record.offset), record.timestamp / 1000)
        brokers = self._kafka.brokers
        rates = Rates({d.name: d.max_rows_per_second for d in self._configured if d.max_rows_per_second})
        databases = Databases(
            self._configured,
            settled=settled,
            index=index,
            drainer=Drainer(
                positions,
                index,
                rates,
                epoch=epoch,
                brokers=brokers,
                pausing=self._pausing,
                worked=self._status.worked,
                log_events=self._settings.log_events,
            ),
            rates=rates,
            epoch=epoch,
            brokers=brokers,
            cluster_id=await positions.cluster_id(),
        )
        self._status.see_unknown(databases.unknown())
        turns = Turns(self._settings.small_batch)
        view = View(
            positions,
            spark,
            databases,
            settled,
            group,
            epoch=epoch,
            index=index,
            rates=rates,
            turns=turns,
            sizes=Sizes(self._settings.batch_bytes),
        )
        for database in self._configured:
            self._status.limit(database, spark.slots)
        return Parts(
            spark,
            positions,
            databases,
            settled,
            index,
            view,
            brokers,
            epoch,
            self._status,
            rates,
            self._pausing,
            self._settings.log_events,
            self._settings.small_batch,
            self._strikes,
        )

    async def _next_epoch(self, positions: Positions) -> int:
        """An epoch for this process, unless a newer writer has started since its last one.

        A zombie that wakes up with its transaction lost must not fence its healthy successor.
        """
        newest = -1 if self._epoch is None else await positions.newest_epoch(self._epoch)
        if self._epoch is not None and newest > self._epoch:
            raise InfrastructureError(FENCED, f"writer {newest} is the newest, this is {self._epoch}")
        return await positions.take_epoch()

    async def _loop(self, parts: Parts, meter: Meter) -> None:
        clock = asyncio.get_running_loop().time
        look_again = 0.0
        current = CurrentRoutes(self._configured)
        upkeep = Upkeep(parts, self._settings.upkeep_s)
        trimming = Trimming(parts.positions, parts.index, self._settings.keep_drained_s)
        pace = Pace(self._settings.batch_events, self._settings.batch_s)
        while not self._stop.is_set():
            if clock() >= look_again:
                await asyncio.to_thread(self._registry.refresh)  # a large one takes a second
                snapshot = self._registry.snapshot()
                self._status.see_registry(snapshot.digest)
                routes = current.of(snapshot)
                async with asyncio.timeout(_KAFKA_SECONDS):
                    await parts.view.discover(topics_of(snapshot))
                    await see_newest(parts)
                look_again = clock() + self._settings.discover_ms / 1000
            await parts.databases.tend(routes)
            self._status.see(parts.databases.states(), parts.view.lag, parts.view.refused)
            self._status.see_reasons(parts.databases.reasons())
            self._status.see_holds(parts.databases.holds())
            self._status.waits(
                {n: (parts.index.events(n), parts.index.oldest(n)) for n in parts.databases.names}
            )
            meter.tick()
            if not parts.databases.drains():
                async with asyncio.timeout(_KAFKA_SECONDS):
                    await trimming.tend()
            for name, how in parts.databases.to_resolve().items():
                work = resolve(parts, name, how, routes, self._settings.batch_events)
                if how == halts.REPLAY:  # it needs Spark, as a batch does
                    await work
                else:
                    parts.databases.meanwhile(name, work)
            if not parts.databases.any_up():
                await parts.databases.wait_for_one(_NO_DATABASE_SECONDS)
                continue
            await parts.databases.settle_down()
            await upkeep.tend()
            ranges, begun_with = await self._plan(parts.view, pace.events, routes)
            if ranges:
                began = clock()
                with self._status.batch():
                    await write_batch(parts, ranges, begun_with)
                pace.took(total(ranges), clock() - began)
            else:
                await self._wait(self._settings.idle_ms / 1000)
            self._failures = 0

    async def _plan(self, view: View, most: int, routes: Routes) -> Planned:
        try:
            async with asyncio.timeout(_KAFKA_SECONDS):
                return await view.plan(most, routes)
        except TimeoutError:
            # Of a topic that was deleted aiokafka goes on asking: then Kafka is not away.
            async with asyncio.timeout(_KAFKA_SECONDS):
                stood = len(view.stands)
                await view.let_go_of_other_lives()
            if len(view.stands) == stood:
                raise
            return [], routes
