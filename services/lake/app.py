"""Constructs the lake service and stops it in reverse order.  Nothing else constructs anything."""

import asyncio
import logging
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final

from aiokafka.errors import KafkaError

from services.lake.driver.kafka_cluster import LakeCluster
from services.lake.driver.loop import Loop, Parts
from services.lake.driver.partitions import Partitions
from services.lake.driver.spark import Jobs
from services.lake.observe.pages import LakeServer
from services.lake.observe.status import LakeStatus
from services.lake.settings import LakeSettings
from shared.backoff import Backoff
from shared.errors import FENCED, KAFKA_UNAVAILABLE, InfrastructureError
from shared.lake.storage import Storage
from shared.registry import Registry
from shared.settings import KafkaSettings

log = logging.getLogger(__name__)

EXIT_STOPPED: Final = 0
EXIT_FAILED: Final = 1
EXIT_FENCED: Final = 3


class LakeProcess:
    """Starts sessions of the driver until one ends for good."""

    def __init__(
        self,
        settings: LakeSettings,
        storage: Storage,
        kafka: KafkaSettings,
        registry: Registry,
        jobs: Callable[[], Jobs],
    ) -> None:
        """`jobs` starts Spark, which takes seconds."""
        self._settings = settings
        self._storage = storage
        self._kafka = kafka
        self._registry = registry
        self._start_jobs = jobs
        self.status = LakeStatus()
        self._stop = asyncio.Event()
        self._backoff = Backoff()

    def stop(self) -> None:
        """End the session after its batch, and the process."""
        self._stop.set()

    async def run(self, *, handle_signals: bool = True) -> int:
        """Run until `stop`, SIGTERM, SIGINT or an error that ends the service; return the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT) if handle_signals else ():
            loop.add_signal_handler(number, self.stop)
        async with AsyncExitStack() as stack:
            server = LakeServer(self.status, self._settings.http_host, self._settings.http_port)
            stack.callback(server.start().stop)
            stack.callback(self._registry.close)
            measuring = asyncio.create_task(self.status.metrics.process.watch("driver"))
            stack.push_async_callback(_end, measuring)
            jobs = await asyncio.to_thread(self._start_jobs)
            return await self._work(jobs)

    async def _work(self, jobs: Jobs) -> int:
        """Run sessions, one after the other, until stopped or fenced; return the exit code."""
        while not self._stop.is_set():
            try:
                await self._session(jobs)
            except InfrastructureError as e:
                if e.fault is FENCED:
                    log.error("a newer driver has taken over; this one ends", extra={"reason": e.detail})  # noqa: TRY400
                    return EXIT_FENCED
                await self._back_off(e.fault.code, e.detail)
            except (KafkaError, TimeoutError, OSError) as e:
                await self._back_off(KAFKA_UNAVAILABLE.code, type(e).__name__)
            if not self._stop.is_set() and not await asyncio.to_thread(jobs.is_alive):
                log.error("Spark's JVM has ended: the service exits, and its supervisor restarts it")
                return EXIT_FAILED
        return EXIT_STOPPED

    async def _back_off(self, code: str, detail: str) -> None:
        """Show and log the error, then wait, longer after each failure, unless stopped."""
        self.status.trouble = f"{code}: {detail}"
        seconds = self._backoff.fail()
        log.warning("the lake waits", extra={"code": code, "reason": detail, "retry_in_s": round(seconds, 1)})
        stopped = asyncio.create_task(self._stop.wait())
        await asyncio.wait({stopped}, timeout=seconds)
        stopped.cancel()

    async def _session(self, jobs: Jobs) -> None:
        """Connect, take over, and run the loop until the service is stopped or an error ends the session."""
        async with AsyncExitStack() as stack:
            cluster = LakeCluster(self._kafka)
            stack.push_async_callback(cluster.stop)
            await cluster.start()
            lake_log = await cluster.read_log()
            parts = Parts(
                settings=self._settings,
                storage=self._storage,
                brokers=self._kafka.brokers,
                owner=await cluster.cluster_id(),
                registry=self._registry,
                jobs=jobs,
                cluster=cluster,
                lake_log=lake_log,
                partitions=Partitions(cluster, lake_log, await cluster.group_offsets()),
                status=self.status,
                stop=self._stop,
            )
            log.info("the lake takes over", extra={"storage": self._storage.url})
            await Loop(parts, on_turn=self._backoff.succeed).run()


async def _end(task: "asyncio.Task[None]") -> None:
    """Cancel a task and wait for its end."""
    task.cancel()
    await asyncio.wait({task})
