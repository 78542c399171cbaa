"""The process of a service that drives Spark: sessions, one after the other, until one ends for good.

A session ends with an error of Kafka or a table, and the next one begins after a pause.  The process ends
when it is stopped, when a newer driver has taken over, and with Spark's JVM, also while no job runs.
"""

import asyncio
import logging
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final, Generic, Protocol, TypeVar

from aiokafka.errors import KafkaError

from shared.backoff import Backoff
from shared.errors import FENCED, KAFKA_UNAVAILABLE, InfrastructureError
from shared.process_metrics import ProcessMetrics
from shared.registry import Registry
from shared.spark.jvm_watch import JvmWatch
from shared.status_server import ServedMetrics, ServedStatus, status_server

log = logging.getLogger(__name__)

EXIT_STOPPED: Final = 0
EXIT_FAILED: Final = 1
EXIT_FENCED: Final = 3


class _Metrics(ServedMetrics, Protocol):
    @property
    def process(self) -> ProcessMetrics: ...


class _Status(ServedStatus, Protocol):
    #: Why the service does not work; empty while it does.
    trouble: str

    @property
    def metrics(self) -> _Metrics: ...


class _Settings(Protocol):
    @property
    def http_host(self) -> str: ...

    @property
    def http_port(self) -> int: ...


class _Jobs(Protocol):
    def is_alive(self) -> bool: ...


J = TypeVar("J", bound=_Jobs)


class DriverProcess(ABC, Generic[J]):
    """Serves the status, starts Spark, and runs sessions."""

    def __init__(
        self, status: _Status, settings: _Settings, registry: Registry, start_jobs: Callable[[], J]
    ) -> None:
        """`start_jobs` starts Spark, which takes seconds."""
        self._shown = status
        self._address = settings.http_host, settings.http_port
        self._registry = registry
        self._start_jobs = start_jobs
        self._stop = asyncio.Event()
        self._backoff = Backoff()

    @abstractmethod
    async def _session(self, jobs: J) -> None:
        """Work until `_stop` is set; raise the error that ends the session."""

    def stop(self) -> None:
        """End the session and the process."""
        self._stop.set()

    async def run(self, *, handle_signals: bool = True) -> int:
        """Run until `stop`, SIGTERM, SIGINT or an error that ends the service; return the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT) if handle_signals else ():
            loop.add_signal_handler(number, self.stop)
        async with AsyncExitStack() as stack:
            stack.callback(status_server(self._shown, *self._address).start().stop)
            stack.callback(self._registry.close)
            measuring = asyncio.create_task(self._shown.metrics.process.watch("driver"))
            stack.push_async_callback(_end, measuring)
            jobs = await asyncio.to_thread(self._start_jobs)
            jvm_ended = asyncio.Event()
            jvm = JvmWatch(jobs.is_alive, lambda: loop.call_soon_threadsafe(jvm_ended.set))
            jvm.start()
            stack.callback(jvm.stop)
            return await self._until_ended(jobs, asyncio.create_task(self._work(jobs)), jvm_ended)

    async def _until_ended(self, jobs: J, work: "asyncio.Task[int]", jvm_ended: asyncio.Event) -> int:
        """Wait for the work, or cancel it when the JVM has ended; return the exit code."""
        ended = asyncio.create_task(jvm_ended.wait())
        await asyncio.wait({work, ended}, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        # A job fails with the JVM before the watch notices.
        if work.done() and (work.exception() is None or await asyncio.to_thread(jobs.is_alive)):
            return await work
        log.error("Spark's JVM has ended: the service exits, and its supervisor restarts it")
        await _end(work)
        return EXIT_FAILED

    async def _work(self, jobs: J) -> int:
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
        return EXIT_STOPPED

    async def _back_off(self, code: str, detail: str) -> None:
        """Show and log the error, then wait, longer after each failure, unless stopped."""
        self._shown.trouble = f"{code}: {detail}"
        seconds = self._backoff.fail()
        log.warning(
            "the driver waits", extra={"code": code, "reason": detail, "retry_in_s": round(seconds, 1)}
        )
        stopped = asyncio.create_task(self._stop.wait())
        await asyncio.wait({stopped}, timeout=seconds)
        stopped.cancel()


async def _end(task: "asyncio.Task[int] | asyncio.Task[None]") -> None:
    """Cancel a task and wait for its end."""
    task.cancel()
    await asyncio.wait({task})
