"""Reads the totals of databases, of the control database and of Kafka in the background.

Databases are read before Kafka, because events that settle meanwhile are then in flight and not missing.  The
pause grows with the time that a reading takes, so that it costs a few percent of a core at most.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from services.admin.background_tasks import UntilStopped
from services.admin.figures.locations import (
    NO_LOCATIONS,
    Collected,
    Locations,
    Positions,
    Stored,
    is_change_topic,
    locations_of,
)
from services.admin.figures.offsets_reader import TOPICS_SECONDS, KafkaReader
from services.admin.figures.parts import PartStates
from services.admin.figures.stored_sql import StoredReader
from services.ops.current_totals_sql import DatabaseTotals, TotalsReader
from services.ops.operate.topics import TopicFacts
from services.ops.settled.reader import SettledReader
from services.ops.waiting_report import UnsettledReading, not_counted
from shared.errors import InfrastructureError
from shared.kafka_security import Brokers

log = logging.getLogger(__name__)

_SECONDS: Final = 5.0
#: The pause is at least this multiple of a reading's time.
_PAUSES: Final = 25.0
#: A reading in which events moved is repeated, because a few of them are in no place or in two.
_ATTEMPTS: Final = 3
_BETWEEN_SECONDS: Final = 0.2
#: A difference of a running writer passes; one that lasts is named.
LASTS_SECONDS: Final = 60.0

#: Returns the events that wait on Kafka by database, or None if no writer answers.
ReadWaiting = Callable[[], Awaitable[Mapping[str, int] | None]]


class TotalsWatch(UntilStopped):
    """Reads until stopped; `locations` and `topics` are the last readings."""

    def __init__(
        self,
        brokers: Brokers,
        dsn: str,
        databases: Mapping[str, str],
        read_waiting: ReadWaiting,
        parts: PartStates,
        *,
        settled: SettledReader,
    ) -> None:
        super().__init__()
        self.locations: Locations = NO_LOCATIONS
        #: The event topics and the time of their reading.
        self.topics: tuple[TopicFacts, ...] = ()
        self.topics_at: datetime | None = None
        #: The unsettled offsets; None before the first reading.
        self.unsettled: UnsettledReading | None = None
        self._settled = settled
        self._kafka = KafkaReader(brokers, settled)
        self._readers = {name: TotalsReader(name, address) for name, address in databases.items()}
        #: Slow databases must not occupy the threads of the event loop, in which replays and statements wait.
        self._threads = ThreadPoolExecutor(max(len(databases), 1), "totals")
        self._control = StoredReader(dsn)
        self._read_waiting = read_waiting
        self._parts = parts
        #: The last totals of each database: while it is unreachable nothing lands in it.
        self._totals: dict[str, DatabaseTotals] = {}
        self._stored: Stored | None = None
        self._differs_since: datetime | None = None
        self._topics_due = 0.0

    async def _go_on(self) -> None:
        """Read until stopped."""
        try:
            while not self.stopped:
                began = time.monotonic()
                await self.read()
                await self.pause(max(_SECONDS, _PAUSES * (time.monotonic() - began)))
        finally:
            await self._kafka.close()
            self._control.close()
            for reader in self._readers.values():
                reader.close()

    async def read(self) -> None:
        """Read all once; a part that does not answer is shown with its last numbers, and is named."""
        try:
            best = await self._once()
            for _ in range(_ATTEMPTS - 1):
                if not best.difference:
                    break
                await self.pause(_BETWEEN_SECONDS)
                best = min(best, await self._once(), key=lambda each: abs(each.difference or 0))
        except InfrastructureError as e:
            await self._kafka.close()
            self._parts.update("kafka", [("Kafka", e.detail)])
            last = self.unsettled or UnsettledReading()
            self.unsettled = replace(last, problem=e.detail, is_whole=False)
            return
        self._parts.update("kafka", [("Kafka", "")])
        if not best.difference:
            self._differs_since = None
        elif self._differs_since is None:
            self._differs_since = best.at
        self.locations = replace(best, difference_since=self._differs_since)

    async def last_unsettled(self) -> UnsettledReading:
        """Return the unsettled offsets of the last reading."""
        return self.unsettled or UnsettledReading(problem="Kafka has not been read yet", is_whole=False)

    async def _once(self) -> Locations:
        group = await self._kafka.group()
        await self._read_databases()
        known = {g.source for totals in self._totals.values() for g in totals.ledger}
        spans, leaderless = await self._kafka.spans(known)
        await self._read_control()
        waiting = await self._read_waiting()
        if time.monotonic() >= self._topics_due:
            self._topics_due = time.monotonic() + TOPICS_SECONDS
            self.topics = await self._kafka.facts(spans, group)
            self.topics_at = datetime.now(UTC)
        self.unsettled = UnsettledReading(
            at=datetime.now(UTC),
            topics=await self._kafka.unsettled(spans, group),
            problem=not_counted(leaderless),
        )
        settled = self._settled.log
        collected = Collected(
            databases={name: each for name, each in self._totals.items() if name not in settled.retired},
            unread=tuple(name for name in self._readers if name not in self._totals),
            settled=settled,
            positions=Positions(group=group, spans=spans, leaderless=leaderless),
            stored=self._stored,
            waiting_kafka=waiting,
        )
        return locations_of(collected, datetime.now(UTC))

    async def _read_databases(self) -> None:
        loop = asyncio.get_running_loop()
        reads = (loop.run_in_executor(self._threads, reader.read) for reader in self._readers.values())
        result = await asyncio.gather(*reads, return_exceptions=True)
        reasons = []
        for name, each in zip(self._readers, result, strict=True):
            if isinstance(each, InfrastructureError):
                reasons.append((f"database {name}", each.detail))
            elif isinstance(each, BaseException):
                raise each
            else:
                self._totals[name] = each
                reasons.append((f"database {name}", ""))
        self._parts.update("database", reasons)

    async def _read_control(self) -> None:
        changes = {
            (generation.topic_id, generation.source.topic)
            for totals in self._totals.values()
            for (generation, _, outcome), n in totals.totals.items()
            if outcome == "parked" and n and is_change_topic(generation.source.topic)
        }
        try:
            self._stored = await asyncio.to_thread(self._control.read, changes)
        except InfrastructureError as e:
            self._parts.update("control", [("the control database", e.detail)])
        else:
            self._parts.update("control", [("the control database", "")])
