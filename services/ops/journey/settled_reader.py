"""Follows `onramp.settled`: the routes of each settled range, topic generations, halts, retired databases.

The topic is read once, and then from its last read offset on: a journey within a service reads a few records.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from services.ops.audit.settled_log import LANDING_SCHEMA, Routed, SettledLog
from services.ops.findings import Source, Table
from services.ops.kafka_logs import KafkaLogs
from services.ops.operate.kafka_halts import Halt, HaltLog
from shared import wire
from shared.errors import KAFKA_UNAVAILABLE, InfrastructureError

_TURN_SECONDS: Final = 2.0
#: Seconds between two attempts to get the turn in an event loop.
_RETRY_SECONDS: Final = 0.02


class SettledReader:
    """The entries of the topic; for many threads."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._topic_id = ""
        self._next: dict[Source, int] = {}
        self._log = SettledLog()
        self._halts = HaltLog()

    async def refresh(self, logs: KafkaLogs) -> None:
        """Read the entries since the last call.  Raises `InfrastructureError`."""
        topics = await logs.named_topics(wire.SETTLED)
        async with self._locked_in_loop():
            if (topic := topics.get(wire.SETTLED)) is None:
                return
            if topic.topic_id != self._topic_id:
                self._topic_id, self._next = topic.topic_id, {}
                self._log, self._halts = SettledLog(), HaltLog()
            ends = await logs.spans_of(topics)
            spans = {source: (self._next.get(source, first), end) for source, (first, end) in ends.items()}
            async for record in logs.read(spans):
                self.apply(record.key, record.value)
                self._next[record.source] = record.offset + 1

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Apply one entry; only `refresh` and tests call it."""
        self._log.apply(key, value)
        self._halts.apply(key, value)

    def tables(self, event_name: str, digests: set[str], default: str) -> list[frozenset[Routed]]:
        """Return the possible sets of tables of an event of this name: one if its routes are known.

        `digests`: of the routes under which it was settled, empty if unknown.
        """
        with self._locked():
            if digests and digests <= self._log.routes.keys():
                return list({self._log.destinations(event_name, digest) for digest in digests})
            return self._log.all_choices(event_name, default)

    def tables_ever(self, event_name: str, default: str) -> set[Table]:
        """Return all tables that events of this name ever had."""
        with self._locked():
            choices = self._log.all_choices(event_name, default)
        return {routed.table for choice in choices for routed in choice} | {
            Table(default, LANDING_SCHEMA, event_name)
        }

    def event_names(self) -> set[str]:
        """Return the event names that any routes name."""
        with self._locked():
            return {name for routes in self._log.routes.values() for name in routes.by_name}

    def databases_of_changes(self, topic: str) -> set[str]:
        """Return the databases that changes of this topic land in."""
        with self._locked():
            return set(self._log.databases_of_changes(topic))

    def generations(self, topic_id: str, partition: int) -> list[str]:
        """Return the ids of the topic's generations that are one log, the newest last."""
        with self._locked():
            return self._log.followed(topic_id, partition)

    def halt_of(self, source: Source) -> Halt | None:
        """Return the partition's open halt."""
        with self._locked():
            return next((halt for halt in self._halts.halts() if halt.partition == str(source)), None)

    def is_retired(self, database: str) -> bool:
        """Return whether the database is retired."""
        with self._locked():
            return database in self._log.retired

    @asynccontextmanager
    async def _locked_in_loop(self) -> AsyncIterator[None]:
        """Wait for the turn without blocking the event loop, which may be that of all requests."""
        until = time.monotonic() + _TURN_SECONDS
        while not self._turn.acquire(blocking=False):
            if time.monotonic() > until:
                raise _busy()
            await asyncio.sleep(_RETRY_SECONDS)
        try:
            yield
        finally:
            self._turn.release()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if not self._turn.acquire(timeout=_TURN_SECONDS):
            raise _busy()
        try:
            yield
        finally:
            self._turn.release()


def _busy() -> InfrastructureError:
    return InfrastructureError(KAFKA_UNAVAILABLE, f"other requests still read {wire.SETTLED}")
