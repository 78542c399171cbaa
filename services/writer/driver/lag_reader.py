"""Reads the lag: the distance from the settled offsets to Kafka's ends, whether or not a batch is planned.

The end is the high watermark, open transactions included.  A batch reads only below the last stable
offset, which does not move while a producer leaves its transaction open.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic, time
from typing import Final

from services.writer.driver.context import Parts
from services.writer.observe.lag import Lag, OpenTransaction
from shared import wire
from shared.kafka_read.offsets import Partition

log = logging.getLogger(__name__)

_KAFKA_SECONDS: Final = 8.0
#: Always requested too, so that a writer without any topic knows whether Kafka answers.
_ALWAYS: Final = Partition(wire.WRITERS, 0)
#: Maximum partitions whose oldest event is looked up in one reading; the longest lags come first.
_MAX_PARTITIONS: Final = 100


class LagReader:
    """Stores facts about each partition that a later reading may not return again."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        #: The last known end: a lower bound while the leader does not answer.
        self._ends: dict[Partition, int] = {}
        #: The last offset that was looked up, and the timestamp of its record (Unix seconds).
        self._oldest: dict[Partition, tuple[int, float]] = {}
        self._open: dict[Partition, OpenTransaction] = {}
        self._logged: set[Partition] = set()

    async def read(self) -> None:
        """Show the lag of every partition whose next offset and end are known.  Raises `TimeoutError`."""
        async with asyncio.timeout(_KAFKA_SECONDS):
            requested = [*self._parts.partitions.next_offsets(), _ALWAYS]
            ends = await self._parts.cluster.end_offsets(requested)
        self._parts.status.update_kafka(reachable=bool(ends))
        self._ends |= ends
        settled = self._parts.partitions.next_offsets()  # after the ends: events that land are no lag
        self._ends = {p: end for p, end in self._ends.items() if p in settled}
        events = {p: max(end - settled[p], 0) for p, end in self._ends.items()}
        behind = {p: settled[p] for p in sorted(events, key=lambda p: -events[p]) if events[p]}
        async with asyncio.timeout(_KAFKA_SECONDS):
            await self._find_open_transactions(behind)
        with suppress(TimeoutError):  # then no age is shown, and no event is hidden
            await self._query_oldest(behind)
        oldest = {p: timestamp for p, (offset, timestamp) in self._oldest.items() if behind.get(p) == offset}
        self._parts.status.update_lag({p: Lag(n, oldest.get(p)) for p, n in events.items()})

    async def _find_open_transactions(self, behind: Mapping[Partition, int]) -> None:
        """Find the partitions whose last stable offset is below an end that was read before it."""
        last_stable = await self._parts.cluster.last_stable_offsets(behind, patient=False)
        now = monotonic()
        current = {
            p: OpenTransaction(t.offset, now) for p, t in last_stable.items() if t.offset < self._ends[p]
        }
        unanswered = {p: t for p, t in self._open.items() if p in behind and p not in last_stable}
        known = {p: t for p, t in self._open.items() if p in current and t.offset == current[p].offset}
        self._open = current | unanswered | known
        self._parts.status.update_open_transactions(self._open)
        self._log_long()

    def _log_long(self) -> None:
        too_long = {p for p, each in self._open.items() if each.is_long()}
        for p in too_long - self._logged:
            log.warning(
                "a partition waits for a transaction of another producer",
                extra={"topic": p.topic, "partition": p.number, "reason": self._open[p].describe(p)},
            )
        self._logged = too_long

    async def _query_oldest(self, behind: Mapping[Partition, int]) -> None:
        """Look up the first event that is not settled, where it has changed since the last reading."""
        self._oldest = {p: known for p, known in self._oldest.items() if behind.get(p) == known[0]}
        unknown = [p for p in behind if p not in self._oldest][:_MAX_PARTITIONS]
        async with asyncio.timeout(_KAFKA_SECONDS):
            timestamps = await self._parts.cluster.times({p: behind[p] for p in unknown})
        now = time()  # a timestamp in the future counts as the time of its first reading
        self._oldest |= {p: (behind[p], min(timestamp, now)) for p, timestamp in timestamps.items()}
