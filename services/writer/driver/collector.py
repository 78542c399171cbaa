"""Reads statistics for /metrics from the databases and Kafka, in the background.

What cannot be read keeps its last value: the loop itself shows what is out.
"""

import asyncio
import logging
import time
from collections import Counter
from typing import Final

from aiokafka.errors import KafkaError

from services.writer.driver.parts import Parts
from services.writer.model.offsets import Partition
from services.writer.observe import database_stats
from services.writer.observe.database_stats import DatabaseStats
from services.writer.postgres.database_threads import failures
from shared.steps import Step

log = logging.getLogger(__name__)

_KAFKA_SECONDS: Final = 8.0
#: The oldest event is looked up of so many partitions with the longest lag.
_MAX_PARTITIONS: Final = 100


class StatsCollector:
    """Collects every `seconds`, one collection at a time."""

    def __init__(self, parts: Parts, seconds: float) -> None:
        self._parts = parts
        self._seconds = seconds
        self._due = 0.0
        self._task: asyncio.Task[None] | None = None

    def tick(self) -> None:
        """Start a collection when it is due."""
        if time.monotonic() >= self._due and (self._task is None or self._task.done()):
            self._due = time.monotonic() + self._seconds
            self._task = asyncio.create_task(self._read())

    async def stop(self) -> None:
        """Cancel a running collection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _read(self) -> None:
        databases = self._parts.databases
        self._parts.status.update_undecided(self._undecided())
        stats: dict[str, DatabaseStats] = {}
        failed = await failures(databases.up(), lambda d: stats.update({d.name: database_stats.read(d)}))
        for name, stats_of in list(stats.items()):
            self._parts.status.update_database(name, stats_of)
        for e in failed.values():
            log.debug("metrics of a database could not be read", extra={"reason": e.detail})
        try:
            async with asyncio.timeout(_KAFKA_SECONDS):
                await self._read_lag()
        except (KafkaError, TimeoutError) as e:
            log.debug("metrics of Kafka could not be read", extra={"reason": type(e).__name__})

    def _undecided(self) -> dict[tuple[Step, str, str], int]:
        """Return the totals that no database counts, of the topics' current incarnations."""
        counts: Counter[tuple[Step, str, str]] = Counter()
        for p, position in self._parts.databases.positions.items():
            if totals := self._parts.plan_log.totals.get((position.topic_id, p.number)):
                counts[Step.FILTER, p.topic, "filtered"] += totals.filtered
                counts[Step.SORT, p.topic, "unroutable"] += totals.unroutable
                counts[Step.SORT, p.topic, "refused"] += totals.refused
        return dict(counts)

    async def _read_lag(self) -> None:
        lag = self._parts.partitions.lag
        longest = sorted((p for p, events in lag.items() if events), key=lambda p: -lag[p])[:_MAX_PARTITIONS]
        positions = self._parts.databases.positions
        oldest = await self._parts.cluster.times({p: positions[p].next_offset for p in longest})
        now = time.time()
        ages: dict[Partition, float] = dict.fromkeys(lag, 0.0)
        ages |= {p: max(now - when, 0.0) for p, when in oldest.items() if lag.get(p)}
        self._parts.status.update_lag_seconds(ages)
