"""Reads statistics for /metrics from the databases and Kafka, in the background.

What cannot be read keeps its last value: the loop itself shows what is out.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from aiokafka.errors import KafkaError

from services.writer.driver.lag import LagReader
from services.writer.driver.parts import Parts, undecided
from services.writer.observe import database_stats
from services.writer.observe.database_stats import DatabaseStats
from services.writer.postgres.database_threads import failures

log = logging.getLogger(__name__)


class StatsCollector:
    """Collects every `seconds` in the background, also while a batch takes long or nothing is planned."""

    def __init__(self, parts: Parts, seconds: float) -> None:
        self._parts = parts
        self._seconds = seconds
        self._lag = LagReader(parts)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start to collect.  A database that hangs delays no figure of Kafka's."""
        self._tasks = [
            asyncio.create_task(self._repeat(read)) for read in (self._read_databases, self._read_lag)
        ]

    async def stop(self) -> None:
        """Stop to collect."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _repeat(self, read: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await read()
            except Exception:
                log.exception("metrics could not be read for a reason that the writer does not know")
            await asyncio.sleep(self._seconds)

    async def _read_databases(self) -> None:
        databases, status = self._parts.databases, self._parts.status
        status.update_undecided(undecided(self._parts))
        stats: dict[str, DatabaseStats] = {}
        began = await status.committed.quiet(self._seconds)
        failed = await failures(databases.up(), lambda d: stats.update({d.name: database_stats.read(d)}))
        for name, stats_of in list(stats.items()):
            status.update_database(name, stats_of, began)
            if stats_of.staged:
                databases.replays.mark_staged(name)
        status.update_connections({name: stats_of.sessions for name, stats_of in stats.items()})
        for name, e in failed.items():
            databases.doubt(name)
            log.debug("metrics of a database could not be read", extra={"reason": e.detail})

    async def _read_lag(self) -> None:
        try:
            await self._lag.read()
        except (KafkaError, TimeoutError) as e:
            log.debug("metrics of Kafka could not be read", extra={"reason": type(e).__name__})
