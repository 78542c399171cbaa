"""The writer's process: starts a session, restarts it after each outage, and stops in reverse order.

Outages of Kafka and of databases are retried here, with a growing backoff; a writer that a newer
writer has fenced exits.
"""

import asyncio
import logging
import signal
from contextlib import AsyncExitStack, suppress
from typing import Final

from aiokafka.errors import KafkaError

from services.writer.driver.collector import StatsCollector
from services.writer.driver.loop import Loop, wait
from services.writer.driver.routes_from_registry import RegistryRefresher
from services.writer.driver.spark import Spark
from services.writer.driver.spark_watch import SparkWatch
from services.writer.driver.standby import stand_by
from services.writer.driver.take_over import Successor
from services.writer.kafka.cluster import Cluster
from services.writer.model.exits import EXIT_FAILED, EXIT_STOPPED, code_of, ends
from services.writer.observe.status import Status
from services.writer.observe.status_server import StatusServer
from services.writer.postgres.database import configured
from services.writer.settings import WriterSettings
from shared.backoff import Backoff
from shared.errors import FENCED, KAFKA_UNAVAILABLE, REGISTRY_UNREAD, InfrastructureError
from shared.read_settings import WrongSettingsError
from shared.registry.factory import open_registry
from shared.settings import KafkaSettings, RegistrySettings
from shared.spark.jvm_watch import JvmWatch
from shared.spark.spark_jobs import PYSPARK

log = logging.getLogger(__name__)

_REGISTRY_SECONDS: Final = 0.5


class WriterProcess:
    """Starts sessions until one ends for good."""

    def __init__(self, settings: WriterSettings, kafka: KafkaSettings, registry: RegistrySettings) -> None:
        self._settings = settings
        self._kafka = kafka
        self._configured = configured(settings)
        self._registry = open_registry(registry, kafka)
        self._refresher = RegistryRefresher(self._registry, registry.topic)
        self._status = Status(settings.new_counter_seconds)
        self._successor = Successor(settings, kafka, self._configured, self._status)
        self._stop = asyncio.Event()
        self._jvm_ended = asyncio.Event()
        self._backoff = Backoff()
        self._epoch: int | None = None

    async def run(self) -> int:
        """Run until SIGTERM, SIGINT or an error that ends the writer (`ends`); return the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        async with AsyncExitStack() as stack:
            stack.callback(self._listen().stop)
            stack.callback(self._registry.close)
            self._status.metrics.process.show_build(PYSPARK)
            measuring = asyncio.create_task(self._status.metrics.process.watch("driver"))
            stack.callback(measuring.cancel)
            # Spark stops first: a running job must not outlive the driver.
            spark = await asyncio.to_thread(Spark, self._settings)
            stack.push_async_callback(asyncio.to_thread, spark.stop)
            watch = SparkWatch(spark, self._status.metrics, self._settings.metrics_seconds)
            watch.start()
            stack.callback(watch.stop)
            jvm = JvmWatch(spark.is_alive, lambda: loop.call_soon_threadsafe(self._jvm_ended.set))
            jvm.start()
            stack.callback(jvm.stop)
            # Spark warms up while Kafka and the databases are read.
            warming = asyncio.create_task(_warm_up(spark))
            stack.callback(warming.cancel)
            work = asyncio.create_task(self._work(spark))
            await self._until_stopped(work, spark)
            with suppress(asyncio.CancelledError):
                return await work
        return EXIT_FAILED if self._jvm_ended.is_set() else EXIT_STOPPED

    def _listen(self) -> StatusServer:
        host, port = self._settings.http_host, self._settings.http_port
        try:
            return StatusServer(self._status, host, port).start()
        except OSError as error:
            raise WrongSettingsError(
                f"it cannot listen on {host}:{port} ({error.strerror}): end what does, or "
                "choose another address with ONRAMP_WRITER_HTTP_HOST and ONRAMP_WRITER_HTTP_PORT"
            ) from None

    async def _until_stopped(self, work: "asyncio.Task[int]", spark: Spark) -> None:
        """Wait for the work to end; cancel it if the JVM ends, or `stop_margin_seconds` after SIGTERM."""
        stop, jvm = (asyncio.create_task(each.wait()) for each in (self._stop, self._jvm_ended))
        await asyncio.wait({work, stop, jvm}, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        jvm.cancel()
        if not work.done() and self._jvm_ended.is_set():
            log.error("Spark's JVM has ended: the writer exits, and its supervisor restarts it")
            work.cancel()
        elif not work.done():
            await asyncio.wait({work}, timeout=self._settings.stop_margin_seconds)
        if not work.done() and not self._jvm_ended.is_set():
            log.warning("cancelling the batch, which did not end in time and rolls back")
            spark.cancel()
            work.cancel()

    async def _work(self, spark: Spark) -> int:
        """Run sessions, one after the other, until stopped or fenced; return the exit code."""
        while not self._stop.is_set():
            try:
                await self._session(spark)
            except InfrastructureError as e:
                if ends(e):
                    return code_of(e)
                await self._back_off(e.fault.code, e.detail)
            except (KafkaError, TimeoutError) as e:
                await self._back_off(KAFKA_UNAVAILABLE.code, repr(e))
            except Exception as e:
                if self._stop.is_set():
                    return EXIT_STOPPED
                if not await asyncio.to_thread(spark.is_alive):
                    log.exception("Spark's JVM has ended: the writer exits, and its supervisor restarts it")
                    return EXIT_FAILED
                log.exception("the batch failed with an unexpected error")
                await self._back_off("internal", type(e).__name__)
        return EXIT_STOPPED

    async def _back_off(self, code: str, detail: str) -> None:
        """Show and log the error, then wait, longer after each failure, unless stopped."""
        self._status.update_trouble(code, detail)
        if code == KAFKA_UNAVAILABLE.code:
            self._status.update_kafka(reachable=False)
        seconds = self._backoff.fail()
        log.warning(
            "the writer waits", extra={"code": code, "reason": detail, "retry_in_s": round(seconds, 1)}
        )
        await wait(self._stop, seconds)

    async def _session(self, spark: Spark) -> None:
        """Take over and run the loop, until the writer is stopped or an error ends the session."""
        async with AsyncExitStack() as stack:
            cluster = Cluster(self._kafka, self._settings.topics)
            stack.push_async_callback(cluster.stop)
            await cluster.start()
            await cluster.own_topics.ensure()
            self._status.update_kafka(reachable=True)
            self._status.warning = ""
            locked = self._configured if self._settings.standby else []
            poll_seconds = self._settings.metrics_seconds
            if await stand_by(stack, locked, cluster, self._status, self._stop, poll_seconds=poll_seconds):
                self._epoch = None  # no successor of this writer is alive
            if self._stop.is_set():
                return
            if not await self._registry_read():
                return
            group = await cluster.group_offsets()  # before the epoch: `group_then_markers`
            self._epoch = await self._next_epoch(cluster)
            parts = await self._successor.take_over(cluster, spark, group, self._epoch)
            stack.push_async_callback(parts.databases.stop)
            log.info("the writer takes over", extra={"epoch": parts.epoch})
            collector = StatsCollector(parts, self._settings.metrics_seconds)
            stack.push_async_callback(collector.stop)
            await Loop(
                parts,
                settings=self._settings,
                configured=self._configured,
                refresher=self._refresher,
                collector=collector,
                stop=self._stop,
                on_turn=self._backoff.succeed,
            ).run()

    async def _registry_read(self) -> bool:
        """Return True when the registry is read, or False when the writer was stopped before."""
        while not self._stop.is_set():
            await self._refresher.refresh(_REGISTRY_SECONDS)
            if self._registry.is_read:
                return True
            self._status.update_trouble(REGISTRY_UNREAD.code, REGISTRY_UNREAD.title)
            await wait(self._stop, _REGISTRY_SECONDS)
        return False

    async def _next_epoch(self, cluster: Cluster) -> int:
        """Take the next epoch and return it.  Raises `InfrastructureError` (FENCED).

        A zombie that wakes up without its transaction must not fence its healthy successor, so
        this writer takes no epoch after a newer writer has started.
        """
        newest = -1 if self._epoch is None else await cluster.newest_epoch(self._epoch)
        if self._epoch is not None and newest > self._epoch:
            raise InfrastructureError(FENCED, f"writer {newest} is the newest, this is {self._epoch}")
        return await cluster.take_epoch()


async def _warm_up(spark: Spark) -> None:
    """Warm Spark up.  A lasting failure makes the first batch fail, which reports it."""
    try:
        await asyncio.to_thread(spark.warm_up)
    except Exception as e:  # noqa: BLE001 - nothing depends on it
        log.warning("Spark could not be warmed up", extra={"reason": type(e).__name__})
