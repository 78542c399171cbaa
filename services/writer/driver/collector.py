"""Reads statistics for /metrics from the databases and Kafka, in the background.

A figure that cannot be read keeps its last value: the loop itself shows which database is unreachable.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from time import monotonic
from typing import Final

from aiokafka.errors import KafkaError

from services.writer.driver.context import Parts, undecided
from services.writer.driver.lag_reader import LagReader
from services.writer.kafka.cluster import Cluster
from services.writer.model.interval_timer import Every
from services.writer.observe import database_stats
from services.writer.observe.status import Status
from services.writer.postgres.database import Database
from services.writer.postgres.database_threads import in_own_thread
from shared.errors import InfrastructureError, OnrampError

log = logging.getLogger(__name__)

#: Seconds between two readings of topics' retention, which an alert compares with hours.
_RETENTION_SECONDS: Final = 60.0
_KAFKA_SECONDS: Final = 8.0
#: Seconds between two checks for staged replays, because an operator waits for them.
_STAGED_SECONDS: Final = 1.0
#: Minimum time between the starts of two size readings, as a multiple of the reading's duration.
_SIZING_PAUSE: Final = 20.0


class StatsCollector:
    """Collects every `seconds` in the background, also during a long batch or without any batch."""

    def __init__(self, parts: Parts, seconds: float) -> None:
        self._parts = parts
        self._seconds = seconds
        self._lag = LagReader(parts)
        self._tasks: list[asyncio.Task[None]] = []
        #: The last reading of each database; a reading that hangs delays nothing else.
        self._readings: dict[str, asyncio.Task[None]] = {}
        #: The last reading of each database's sizes, which is slow, and when the next one is due.
        self._sizings: dict[str, asyncio.Task[None]] = {}
        self._next_sizing: dict[str, float] = {}
        #: The last check of each database for staged replays.
        self._staged_checks: dict[str, asyncio.Task[None]] = {}
        self._sessions: dict[str, Mapping[str, int]] = {}
        self._retentions = Every(_RETENTION_SECONDS)
        #: The topics whose retention is shown.
        self._retention_topics: set[str] = set()

    def start(self) -> None:
        """Start to collect.  A database that hangs delays no figure of Kafka or of another database."""
        self._tasks = [
            asyncio.create_task(_repeat(read, seconds))
            for read, seconds in (
                (self._read_databases, self._seconds),
                (self._check_staged, min(self._seconds, _STAGED_SECONDS)),
                (self._read_lag, self._seconds),
                (self._read_retentions, self._seconds),
            )
        ]

    async def stop(self) -> None:
        """Stop to collect."""
        of_databases = (self._readings, self._sizings, self._staged_checks)
        tasks = [*self._tasks, *(task for of in of_databases for task in of.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _read_databases(self) -> None:
        """Begin to read each database whose last reading has ended."""
        self._parts.status.update_undecided(undecided(self._parts))
        up = {d.name: d for d in self._parts.databases.up()}
        unanswered = {name for name, reading in self._readings.items() if not reading.done()}
        for name in up.keys() - unanswered:
            read = partial(self._read_database, up[name])
            self._readings[name] = asyncio.create_task(_attempt(read))
        self._sessions = {n: of for n, of in self._sessions.items() if n in up.keys() - unanswered}
        self._parts.status.update_connections(self._sessions)
        for name, database in up.items():
            is_due = monotonic() >= self._next_sizing.get(name, 0.0)
            if is_due and _has_ended(self._sizings, name):
                self._sizings[name] = asyncio.create_task(_attempt(partial(self._read_sizes, database)))

    async def _read_sizes(self, database: Database) -> None:
        """Show the database's sizes.  A slow reading is repeated rarely; its failure changes no state."""
        began = monotonic()
        try:
            sizes = await in_own_thread(database_stats.read_sizes, database)
            self._parts.status.update_sizes(database.name, sizes)
        except OnrampError as e:
            log.warning(
                "the sizes of a database could not be read",
                extra={"database": database.name, "reason": e.detail},
            )
        finally:
            took = monotonic() - began
            self._next_sizing[database.name] = began + took * _SIZING_PAUSE

    async def _read_database(self, database: Database) -> None:
        databases, status = self._parts.databases, self._parts.status
        began = await status.committed.quiet(self._seconds)
        try:
            stats_of = await in_own_thread(database_stats.read, database)
        except InfrastructureError as e:
            self._sessions.pop(database.name, None)
            databases.doubt(database.name)
            log.debug("metrics of a database could not be read", extra={"reason": e.detail})
        else:
            status.update_database(database.name, stats_of, began)
            self._sessions[database.name] = stats_of.sessions
        status.update_connections(self._sessions)

    async def _check_staged(self) -> None:
        """Begin to check each database whose last check has ended."""
        for database in self._parts.databases.up():
            if _has_ended(self._staged_checks, database.name):
                check = partial(self._check_database, database)
                self._staged_checks[database.name] = asyncio.create_task(_attempt(check))

    async def _check_database(self, database: Database) -> None:
        try:
            is_staged = await in_own_thread(database_stats.is_staged, database)
        except OnrampError as e:  # the reading of its figures decides whether it is unreachable
            log.debug("staged replays could not be read", extra={"reason": e.detail})
            return
        if is_staged:
            self._parts.databases.replays.mark_staged(database.name)

    async def _read_lag(self) -> None:
        try:
            await self._lag.read()
        except (KafkaError, TimeoutError) as e:
            self._parts.status.update_kafka(reachable=False)
            log.debug("metrics of Kafka could not be read", extra={"reason": type(e).__name__})

    async def _read_retentions(self) -> None:
        topics = {p.topic for p in self._parts.partitions.next_offsets()}
        if topics == self._retention_topics and not self._retentions.is_due():
            return
        try:
            self._parts.status.update_retentions(await self._parts.cluster.retentions(topics))
            self._retention_topics = topics
            self._retentions.restart()
        except (KafkaError, TimeoutError) as e:
            log.debug("the retention of topics could not be read", extra={"reason": type(e).__name__})


async def watch_kafka(cluster: Cluster, status: Status, seconds: float) -> None:
    """Show whether Kafka answers a writer that reads no topic yet, until cancelled."""
    while True:
        await asyncio.sleep(seconds)
        try:
            async with asyncio.timeout(_KAFKA_SECONDS):
                await cluster.cluster_id()
        except (KafkaError, TimeoutError):
            status.update_kafka(reachable=False)
        except Exception:
            log.exception("Kafka could not be reached because of an unexpected error")
        else:
            status.update_kafka(reachable=True)


async def _repeat(read: Callable[[], Awaitable[None]], seconds: float) -> None:
    while True:
        await _attempt(read)
        await asyncio.sleep(seconds)


def _has_ended(tasks: Mapping[str, asyncio.Task[None]], name: str) -> bool:
    """Return whether the last task of a database has ended; True if there was none."""
    return name not in tasks or tasks[name].done()


async def _attempt(read: Callable[[], Awaitable[None]]) -> None:
    try:
        await read()
    except Exception:
        log.exception("metrics could not be read because of an unexpected error")
