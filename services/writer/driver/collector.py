"""Reads for /metrics what only the databases and Kafka know, now and then, beside the loop.

What cannot be read now is shown as it was: the loop says itself what is out.
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
#: Partitions whose oldest event is looked up at once; those with the longest lag.
_MOST_PARTITIONS: Final = 100


class StatsCollector:
    """One reading after the other, never two at a time."""

    def __init__(self, parts: Parts, seconds: float) -> None:
        self._parts = parts
        self._seconds = seconds
        self._due = 0.0
        self._reading: asyncio.Task[None] | None = None

    def tick(self) -> None:
        """Begin a reading if it is time for one."""
        if time.monotonic() >= self._due and (self._reading is None or self._reading.done()):
            self._due = time.monotonic() + self._seconds
            self._reading = asyncio.create_task(self._read())

    async def stop(self) -> None:
        """End a reading that is under way."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def _read(self) -> None:
        databases = self._parts.databases
        self._parts.status.update_undecided(self._undecided())
        found: dict[str, DatabaseStats] = {}
        failed = await failures(databases.up(), lambda d: found.update({d.name: database_stats.read(d)}))
        for name, reading in list(found.items()):
            self._parts.status.update_database(name, reading)
        for e in failed.values():
            log.debug("metrics of a database could not be read", extra={"reason": e.detail})
        try:
            async with asyncio.timeout(_KAFKA_SECONDS):
                await self._read_lag()
        except (KafkaError, TimeoutError) as e:
            log.debug("metrics of Kafka could not be read", extra={"reason": type(e).__name__})

    def _undecided(self) -> dict[tuple[Step, str, str], int]:
        """What no database counts, of today's lives of the topics."""
        found: Counter[tuple[Step, str, str]] = Counter()
        for p, position in self._parts.databases.positions.items():
            if totals := self._parts.plan_log.totals.get((position.topic_id, p.number)):
                found[Step.FILTER, p.topic, "filtered"] += totals.filtered
                found[Step.SORT, p.topic, "unroutable"] += totals.unroutable
                found[Step.SORT, p.topic, "refused"] += totals.refused
        return dict(found)

    async def _read_lag(self) -> None:
        lag = self._parts.partitions.lag
        longest = sorted((p for p, events in lag.items() if events), key=lambda p: -lag[p])[:_MOST_PARTITIONS]
        positions = self._parts.databases.positions
        oldest = await self._parts.cluster.times({p: positions[p].next_offset for p in longest})
        now = time.time()
        ages: dict[Partition, float] = dict.fromkeys(lag, 0.0)
        ages |= {p: max(now - at, 0.0) for p, at in oldest.items() if lag.get(p)}
        self._parts.status.update_lag_seconds(ages)
