"""Constructs the transform service and stops it in reverse order.  Nothing else constructs anything."""

import asyncio
import logging
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import Final

from aiokafka.errors import KafkaError

from services.transform.driver.kafka_lags import Lags
from services.transform.driver.kafka_output_topics import OutputTopics
from services.transform.driver.kafka_states import States
from services.transform.driver.kafka_totals import TotalsFollower
from services.transform.driver.lane_jobs import Jobs
from services.transform.driver.lookup_snapshots import LookupSnapshots, Read
from services.transform.driver.loop import Driver, Parts
from services.transform.driver.outcome_watch import OutcomeWatch
from services.transform.observe.pages import TransformServer
from services.transform.observe.status import Status
from services.transform.settings import TransformSettings
from shared.backoff import Backoff
from shared.errors import FENCED, KAFKA_UNAVAILABLE, InfrastructureError
from shared.kafka_own_topics import OwnTopics
from shared.kafka_read.any_broker import AnyBroker
from shared.registry import Registry
from shared.settings import KafkaSettings
from shared.spark.jvm_watch import JvmWatch
from shared.topics import TRANSFORM_TOPICS

log = logging.getLogger(__name__)

EXIT_STOPPED: Final = 0
EXIT_FAILED: Final = 1
EXIT_FENCED: Final = 3
_JVM_ENDED: Final = "Spark's JVM has ended: the service exits, and its supervisor restarts it"
#: Threads that wait for runs: lanes of all transforms at a time.
_MAX_RUNS: Final = 256


class TransformProcess:
    """Starts sessions of the driver until one ends for good."""

    def __init__(
        self,
        settings: TransformSettings,
        kafka: KafkaSettings,
        registry: Registry,
        jobs: Callable[[], Jobs],
        read_lookup: Read,
    ) -> None:
        """`jobs` starts Spark, which takes seconds."""
        self._settings = settings
        self._kafka = kafka
        self._registry = registry
        self._start_jobs = jobs
        self._read_lookup = read_lookup
        self.status = Status()
        self._stop = asyncio.Event()
        self._driver: Driver | None = None
        self._backoff = Backoff()
        #: In this process counters continue over sessions.
        self._watch = OutcomeWatch(self.status.metrics)

    def stop(self) -> None:
        """End the session and the process."""
        self._stop.set()
        if self._driver is not None:
            self._driver.wake()

    async def run(self, *, handle_signals: bool = True) -> int:
        """Run until `stop`, SIGTERM, SIGINT or an error that ends the service; return the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT) if handle_signals else ():
            loop.add_signal_handler(number, self.stop)
        async with AsyncExitStack() as stack:
            server = TransformServer(self.status, self._settings.http_host, self._settings.http_port)
            stack.callback(server.start().stop)
            stack.callback(self._registry.close)
            measuring = asyncio.create_task(self.status.metrics.process.watch("driver"))
            stack.push_async_callback(_end, measuring)
            jobs = await asyncio.to_thread(self._start_jobs)
            threads = ThreadPoolExecutor(_MAX_RUNS, "lane-run")
            stack.callback(threads.shutdown)
            jvm_ended = asyncio.Event()
            jvm = JvmWatch(jobs.is_alive, lambda: loop.call_soon_threadsafe(jvm_ended.set))
            jvm.start()
            stack.callback(jvm.stop)
            return await self._until_ended(asyncio.create_task(self._work(jobs, threads)), jvm_ended)

    async def _until_ended(self, work: "asyncio.Task[int]", jvm_ended: asyncio.Event) -> int:
        """Wait for the work, or cancel it when the JVM has ended; return the exit code."""
        ended = asyncio.create_task(jvm_ended.wait())
        await asyncio.wait({work, ended}, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if work.done():
            return await work
        log.error(_JVM_ENDED)
        work.cancel()
        await asyncio.wait({work})
        return EXIT_FAILED

    async def _work(self, jobs: Jobs, threads: ThreadPoolExecutor) -> int:
        """Run sessions, one after the other, until stopped or fenced; return the exit code."""
        while not self._stop.is_set():
            try:
                await self._session(jobs, threads)
            except InfrastructureError as e:
                if e.fault is FENCED:
                    log.error("a newer driver has taken over; this one ends", extra={"reason": e.detail})  # noqa: TRY400
                    return EXIT_FENCED
                await self._back_off(e.fault.code, e.detail)
            except (KafkaError, TimeoutError, OSError) as e:
                await self._back_off(KAFKA_UNAVAILABLE.code, type(e).__name__)
        return EXIT_STOPPED

    async def _back_off(self, code: str, detail: str) -> None:
        """Show and log the error, then wait, longer after each failure, unless stopped."""
        self.status.trouble = f"{code}: {detail}"
        seconds = self._backoff.fail()
        log.warning(
            "the driver waits", extra={"code": code, "reason": detail, "retry_in_s": round(seconds, 1)}
        )
        stopped = asyncio.create_task(self._stop.wait())
        await asyncio.wait({stopped}, timeout=seconds)
        stopped.cancel()

    async def _session(self, jobs: Jobs, threads: ThreadPoolExecutor) -> None:
        """Connect, and run the loop, until the service is stopped or an error ends the session."""
        brokers = self._kafka.brokers
        async with AsyncExitStack() as stack:
            admin = AnyBroker(brokers)
            stack.push_async_callback(admin.close)
            await admin.start()
            await OwnTopics(admin, self._kafka, TRANSFORM_TOPICS).ensure()
            states, totals, lags = States(brokers), TotalsFollower(brokers), Lags(brokers)
            for part in (states, totals, lags):
                stack.push_async_callback(part.stop)
                await part.start()
            self._watch.begin(totals.positions)
            lookups = LookupSnapshots(jobs, self._read_lookup, self.status.metrics)
            stack.push_async_callback(lookups.stop)
            self._driver = Driver(
                Parts(
                    settings=self._settings,
                    brokers=brokers,
                    registry=self._registry,
                    jobs=jobs,
                    threads=threads,
                    states=states,
                    totals=totals,
                    lags=lags,
                    topics=OutputTopics(self._kafka),
                    lookups=lookups,
                    watch=self._watch,
                    status=self.status,
                    stop=self._stop,
                )
            )
            await self._driver.run()
            self._backoff.succeed()


async def _end(task: "asyncio.Task[None]") -> None:
    """Cancel a task and wait for its end."""
    task.cancel()
    await asyncio.wait({task})
