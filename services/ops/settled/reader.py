"""Reads the entries of `onramp.settled`: routes, topic generations, totals, halts, retired databases.

The admin service has one reader, which its requests and background tasks share. Each entry is read once, also
if a request that reads ends early, so no request reads the topic whole.
"""

import asyncio
import math
import threading
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from services.ops.audit.settled_log import LANDING_SCHEMA, Routed, SettledLog, Totals
from services.ops.findings import Source, Table
from services.ops.kafka_logs import KafkaLogs, no_leader
from services.ops.operate.kafka_halts import Halt, HaltLog
from services.ops.settled.uncounted import TotalsHistory
from shared import wire
from shared.errors import KAFKA_UNAVAILABLE, InfrastructureError

_TURN_SECONDS: Final = 2.0
#: Seconds between two attempts to get the turn in an event loop.
_RETRY_SECONDS: Final = 0.02


class SettledReader:
    """The entries of the topic; for many threads and event loops.

    One caller at a time reads the topic.  The state is locked only for one entry or one answer.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._lock = threading.Lock()
        self._topic_id = ""
        self._next: dict[Source, int] = {}
        self._log = SettledLog()
        self._halts = HaltLog()
        self._history = TotalsHistory()
        #: Time of the last reading (monotonic seconds); minus infinity before the first.
        self._read_at = -math.inf

    def age_seconds(self) -> float:
        """Return the seconds since the topic was read to its end."""
        return time.monotonic() - self._read_at

    def expire(self) -> None:
        """Forget the time of the last reading, after an entry was written."""
        self._read_at = -math.inf

    @property
    def log(self) -> SettledLog:
        """Return the entries as the audit reads them; the caller is in the event loop of all refreshes."""
        return self._log

    async def refresh(self, logs: KafkaLogs) -> None:
        """Read the entries since the last call.  Raises `InfrastructureError`."""
        async with self._turn_in_loop():
            topics = await logs.named_topics(wire.SETTLED)
            if (topic := topics.get(wire.SETTLED)) is None:
                return
            if topic.topic_id != self._topic_id:
                if self._topic_id:
                    self._forget()
                self._topic_id = topic.topic_id
            spans = await logs.spans_of(topics)
            if lost := {source for source in logs.leaderless if source.topic == wire.SETTLED}:
                raise InfrastructureError(KAFKA_UNAVAILABLE, no_leader(lost))
            await self._read(logs, spans)

    async def follow(self, logs: KafkaLogs, spans: Mapping[Source, tuple[int, int]]) -> None:
        """Read the entries since the last call, for a caller that knows first and end offsets of the topic.

        Raises `InfrastructureError`.
        """
        async with self._turn_in_loop():
            await self._read(logs, spans)

    async def _read(self, logs: KafkaLogs, spans: Mapping[Source, tuple[int, int]]) -> None:
        if any(end < self._next.get(source, 0) for source, (_, end) in spans.items()):
            self._forget()  # the topic was created again, or is truncated
        began = time.monotonic()
        new = {source: (max(first, self._next.get(source, 0)), end) for source, (first, end) in spans.items()}
        async for record in logs.read(new):
            self.apply(record.key, record.value)
            self._next[record.source] = record.offset + 1
        self._next |= {source: end for source, (_, end) in spans.items()}
        self._read_at = began

    def _forget(self) -> None:
        with self._lock:
            self._next = {}
            self._log, self._halts, self._history = SettledLog(), HaltLog(), TotalsHistory()

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Apply one entry; only this reader and tests call it."""
        with self._lock:
            self._log.apply(key, value)
            self._halts.apply(key, value)
            self._history.apply(key, value)

    def tables(self, event_name: str, digests: set[str], default: str) -> list[frozenset[Routed]]:
        """Return the possible sets of tables of an event of this name: one if its routes are known.

        `digests`: of the routes under which it was settled, empty if unknown.
        """
        with self._lock:
            if digests and digests <= self._log.routes.keys():
                return list({self._log.destinations(event_name, digest) for digest in digests})
            return self._log.all_choices(event_name, default)

    def tables_ever(self, event_name: str, default: str) -> set[Table]:
        """Return all tables that events of this name ever had."""
        with self._lock:
            choices = self._log.all_choices(event_name, default)
        return {routed.table for choice in choices for routed in choice} | {
            Table(default, LANDING_SCHEMA, event_name)
        }

    def event_names(self) -> set[str]:
        """Return the event names that any routes name."""
        with self._lock:
            return {name for routes in self._log.routes.values() for name in routes.by_name}

    def databases_of_changes(self, topic: str) -> set[str]:
        """Return the databases that changes of this topic land in."""
        with self._lock:
            return set(self._log.databases_of_changes(topic))

    def generations(self, topic_id: str, partition: int) -> list[str]:
        """Return the ids of the topic's generations that are one log, the newest last."""
        with self._lock:
            return self._log.followed(topic_id, partition)

    def halt_of(self, source: Source) -> Halt | None:
        """Return the partition's open halt."""
        with self._lock:
            return next((halt for halt in self._halts.halts() if halt.partition == str(source)), None)

    def is_retired(self, database: str) -> bool:
        """Return whether the database is retired."""
        with self._lock:
            return database in self._log.retired

    def halt_log(self) -> HaltLog:
        """Return the halts of partitions and their answers, as of now."""
        with self._lock:
            return self._halts.copy()

    def retired(self) -> frozenset[str]:
        """Return the retired databases."""
        with self._lock:
            return frozenset(self._log.retired)

    def first_offsets(self, topic_id: str, partition: int) -> Mapping[str, int]:
        """Return the offset at which each database began to settle the partition."""
        with self._lock:
            return dict(self._log.baselines.get((topic_id, partition), {}))

    def totals_at(self, topic_id: str, partition: int, next_offset: int) -> Totals | None:
        """Return the counts below `next_offset` that no database has, or None if only later ones are left."""
        with self._lock:
            return self._history.at(topic_id, partition, next_offset)

    @asynccontextmanager
    async def _turn_in_loop(self) -> AsyncIterator[None]:
        """Wait for the turn without blocking the event loop, which may be that of all requests."""
        until = time.monotonic() + _TURN_SECONDS
        while not self._turn.acquire(blocking=False):
            if time.monotonic() > until:
                raise InfrastructureError(
                    KAFKA_UNAVAILABLE, f"{wire.SETTLED} is still being read: try again in a few seconds"
                )
            await asyncio.sleep(_RETRY_SECONDS)
        try:
            yield
        finally:
            self._turn.release()
