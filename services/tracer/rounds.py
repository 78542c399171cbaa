"""The tracer's flow: a round writes its tracers to the file, sends them, and then reads their rows."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final
from uuid import uuid4

from services.tracer import kafka_packets, writer_states
from services.tracer.entrances import Entrance, RefusedError, row_id
from services.tracer.journal import Journal
from services.tracer.kafka_packets import Packets
from services.tracer.lake_rows import LakeRows
from services.tracer.metrics import TracerMetrics
from services.tracer.results import (
    LAKE,
    OPEN,
    Change,
    Destination,
    Limits,
    Result,
    Tracer,
    Watch,
    evaluate,
    refuse,
)
from services.tracer.rows_sql import LANDING, PACKETS, SYSLOG, Rows
from services.tracer.transform_entrance import TransformEntrance
from shared.errors import InfrastructureError

log = logging.getLogger(__name__)

#: Seconds between two polls for rows while a tracer is fresh.
_FRESH_POLL_SECONDS: Final = 0.5
#: Seconds after which the writer is asked why a tracer has no row.
_ASK_WRITER_SECONDS: Final = 3.0
_KAFKA_SECONDS: Final = 10.0
#: Maximum results of one reading of the totals.
_MAX_DUPLICATES: Final = 100
#: Seconds between two trims of the tables and of the file.
_TRIM_SECONDS: Final = 3600.0
#: Seconds for which a tracer is among the recent ones of the metrics: a lost one alerts for an hour.
_SHOWN_SECONDS: Final = 3600.0
#: The entrance of a duplicate that the totals show: they do not name the event, so any of them sent it.
ANY_ENVELOPE: Final = "any_envelope"
_LOGGED: Final = {
    "lost": logging.ERROR,
    "duplicate": logging.ERROR,
    "not_in_lake": logging.ERROR,
    "refused": logging.WARNING,
}


class Rounds:
    """Sends tracers and evaluates them until stopped."""

    def __init__(
        self,
        *,
        entrances: Sequence[Entrance],
        packets: Packets | None,
        through_transform: TransformEntrance | None = None,
        databases: Sequence[Rows],
        lake: LakeRows | None = None,
        lake_seconds: float = 0.0,
        writers: Sequence[str],
        journal: Journal,
        metrics: TracerMetrics,
        limits: Limits,
        interval: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._entrances = entrances
        self._packets = packets
        self._through_transform = through_transform
        self._databases = databases
        self._lake = lake
        self._lake_seconds = lake_seconds
        self._writers = writers
        self._journal = journal
        self._metrics = metrics
        self._limits = limits
        self._interval = interval
        self._clock = clock
        self._stopping = asyncio.Event()
        #: Databases with the table of packets, and those about which a warning was logged.
        self._prepared: set[str] = set()
        self._warned: set[str] = set()
        #: Databases in which messages of syslog cannot be found, and why.
        self._unindexed: dict[str, str] = {}
        self._next_trim = 0.0
        #: Tracers of this process that have a row.
        self.landed = 0
        #: The last reason for which an entrance has refused a tracer, by entrance.
        self.refusals: dict[str, str] = {}

    def stop(self) -> None:
        """Request an end."""
        self._stopping.set()

    async def run(self) -> None:
        """Work until stopped."""
        if self._journal.unreadable:
            log.warning("skipped unreadable lines of the file", extra={"lines": self._journal.unreadable})
        try:
            while not self._stopping.is_set():
                began = time.monotonic()
                await self._trim()
                await self.send()
                await self.poll()
                await self.find_duplicates()
                while (left := began + self._interval - time.monotonic()) > 0 and not self._stopping.is_set():
                    await self._pause(min(left, _FRESH_POLL_SECONDS) if self._is_fresh() else left)
                    if self._is_fresh():
                        await self.poll(only_open=True)
        finally:
            if self._packets is not None:
                await self._packets.stop()
            for rows in self._databases:
                rows.close()
            self._journal.close()

    async def send(self) -> None:
        """Send one tracer into each entrance: write it to the disk, then send it."""
        await self._prepare()
        now = self._clock()
        entrances = [e for e in self._entrances if e.table != SYSLOG or not self._unindexed]
        through = self._through_transform
        if through is not None and await asyncio.to_thread(through.is_running):
            entrances.append(through.entrance)
        by_entrance = {e: self._tracer(e.name, e.table, now) for e in entrances}
        # Without its table a packet would be parked, for an operator to decide about.
        has_tables = self._prepared >= {rows.name for rows in self._databases}
        packet = self._tracer(kafka_packets.NAME, PACKETS, now) if self._packets and has_tables else None
        self._journal.add([*by_entrance.values(), *([packet] if packet else [])])
        await asyncio.gather(*(self._send_by(e, tracer) for e, tracer in by_entrance.items()))
        if self._packets is not None and packet is not None:
            await self._send_packet(self._packets, packet)

    async def poll(self, *, only_open: bool = False) -> None:
        """Read the rows of tracers, and record what changed; all recent ones are searched for duplicates."""
        now = self._clock()
        tracers = [t for t in self._journal.tracers.values() if self._is_due(t, now, only_open=only_open)]
        if not tracers:
            return
        rows, unread = await self._rows(tracers)
        unavailable = set(unread)
        lake_seconds = None
        if self._lake is not None and not only_open:  # a batch of the lake takes longer than a round
            lake_rows, is_read = await self._lake_rows(self._lake, tracers)
            rows = {**rows, **lake_rows}
            lake_seconds = self._lake_seconds
            if not is_read:
                unavailable.add(self._lake.destination.place)
        if any(_is_open(t, with_lake=False) and now - t.sent_at > _ASK_WRITER_SECONDS for t in tracers):
            unavailable |= await asyncio.to_thread(writer_states.unavailable, self._writers)
        changes: list[Change] = []
        now = self._clock()
        for tracer in tracers:
            counts = {d: rows.get((d, row_id(tracer.entrance, tracer.id)), 0) for d in tracer.watches}
            changes += evaluate(tracer, counts, unavailable, now, self._limits, lake_seconds=lake_seconds)
        self._record(changes)
        self._metrics.show_recent(self._shown(now))

    async def find_duplicates(self) -> None:
        """Record the duplicate envelopes that the totals have gained: no tracer is sent twice."""
        now = self._clock()
        for rows in self._databases:
            try:
                events = await asyncio.to_thread(rows.duplicates)
            except InfrastructureError as e:
                log.warning("totals cannot be read", extra={"database": rows.name, "reason": e.detail})
                continue
            before = self._journal.duplicates.get(rows.name)
            if before is not None:
                self._add_duplicates(Destination(rows.name, LANDING), events - before, now)
            if events != before:  # a database that was restored has fewer
                self._journal.count_duplicates(rows.name, events)

    def _add_duplicates(self, destination: Destination, count: int, now: float) -> None:
        found = [
            Tracer(f"duplicate-{uuid4().hex}", ANY_ENVELOPE, now, {destination: Watch()}, accepted_at=now)
            for _ in range(min(count, _MAX_DUPLICATES))
        ]
        if not found:
            return
        self._journal.add(found)
        for tracer in found:
            tracer.watches[destination] = Watch(Result.DUPLICATE, landed_at=now)
        self._record([Change(tracer, destination, Result.DUPLICATE) for tracer in found])
        self._metrics.show_recent(self._shown(now))

    def tracers(self) -> list[Tracer]:
        """Return the tracers of the last day, in the order sent."""
        return list(self._journal.tracers.values())

    def _tracer(self, entrance: str, table: str, now: float) -> Tracer:
        watches = {Destination(rows.name, table): Watch() for rows in self._databases}
        if self._lake is not None and table == LANDING:
            watches[self._lake.destination] = Watch()
        return Tracer(f"tracer-{uuid4().hex}", entrance, now, watches)

    async def _send_by(self, entrance: Entrance, tracer: Tracer) -> None:
        try:
            is_acknowledged = await asyncio.to_thread(entrance.send, tracer.id)
        except RefusedError as e:
            self._refuse(tracer, str(e))
        else:
            if is_acknowledged:
                self._accept(tracer)

    async def _send_packet(self, packets: Packets, tracer: Tracer) -> None:
        try:
            async with asyncio.timeout(_KAFKA_SECONDS):
                await packets.send(tracer.id)
        except RefusedError as e:
            self._refuse(tracer, str(e))
        except TimeoutError:
            self._refuse(tracer, "Kafka: no acknowledgement")
        else:
            self._accept(tracer)

    def _accept(self, tracer: Tracer) -> None:
        tracer.accepted_at = self._clock()
        self._journal.accept(tracer)
        self.refusals.pop(tracer.entrance, None)
        seconds = max(tracer.accepted_at - tracer.sent_at, 0.0)
        self._metrics.accepted_seconds.labels(tracer.entrance).observe(seconds)

    def _refuse(self, tracer: Tracer, reason: str) -> None:
        self.refusals[tracer.entrance] = reason
        self._record(list(refuse(tracer, reason)))

    def _record(self, changes: Sequence[Change]) -> None:
        self._journal.change(changes)
        self._metrics.count(changes)
        for tracer, destination, result in changes:
            self.landed += tracer.watches[destination].landed_at is not None
            if level := _LOGGED.get(result.value):
                log.log(
                    level,
                    "a tracer's result",
                    extra={
                        "tracer": tracer.id,
                        "entrance": tracer.entrance,
                        "destination": str(destination),
                        "result": result.value,
                        "reason": tracer.refusal,
                    },
                )

    async def _rows(
        self, tracers: Sequence[Tracer]
    ) -> tuple[Mapping[tuple[Destination, str], int], set[str]]:
        """Return the rows of tracers, and the databases that could not be read."""
        wanted: dict[str, dict[str, list[str]]] = {}
        for tracer in tracers:
            for destination in tracer.watches:
                if not destination.is_in_lake:
                    ids = wanted.setdefault(destination.database, {}).setdefault(destination.table, [])
                    ids.append(row_id(tracer.entrance, tracer.id))
        known = {rows.name: rows for rows in self._databases}
        asked = {name: of for name, of in wanted.items() if name in known}
        answers = await asyncio.gather(
            *(asyncio.to_thread(known[name].count, of) for name, of in asked.items()),
            return_exceptions=True,
        )
        found: dict[tuple[Destination, str], int] = {}
        unread = wanted.keys() - asked.keys()
        for name, answer in zip(asked, answers, strict=True):
            if isinstance(answer, InfrastructureError):
                log.warning("rows cannot be read", extra={"database": name, "reason": answer.detail})
                unread.add(name)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found |= answer
                if not known[name].has_packets:  # it was dropped, and is created before the next packet
                    self._prepared.discard(name)
        return found, unread

    async def _lake_rows(
        self, lake: LakeRows, tracers: Sequence[Tracer]
    ) -> tuple[Mapping[tuple[Destination, str], int], bool]:
        """Return the rows of tracers in the lake, and whether its table could be read."""
        watched = [tracer for tracer in tracers if lake.destination in tracer.watches]
        if not watched:
            return {}, True
        ids = [row_id(tracer.entrance, tracer.id) for tracer in watched]
        since = min(tracer.sent_at for tracer in watched)
        try:
            return await asyncio.to_thread(lake.count, ids, since), True
        except InfrastructureError as e:
            log.warning("rows cannot be read", extra={"database": LAKE, "reason": e.detail})
            return {}, False

    async def _prepare_syslog(self) -> None:
        """Prepare the tables in which messages of syslog are found, if it is an entrance."""
        if not any(entrance.table == SYSLOG for entrance in self._entrances):
            return
        for rows in self._databases:
            try:
                reason = await asyncio.to_thread(rows.prepare_syslog)
            except InfrastructureError as e:
                reason = e.detail
            if reason and self._unindexed.get(rows.name) != reason:
                log.warning(
                    "no syslog messages are sent: their rows cannot be found; retrying",
                    extra={"database": rows.name, "reason": reason},
                )
            self._unindexed |= {rows.name: reason}
        self._unindexed = {name: reason for name, reason in self._unindexed.items() if reason}

    async def _prepare(self) -> None:
        await self._prepare_syslog()
        for rows in self._databases:
            if rows.name not in self._prepared:
                try:
                    await asyncio.to_thread(rows.prepare)
                except InfrastructureError as e:
                    if rows.name not in self._warned:
                        log.warning(
                            "no packets are sent: their table cannot be created; retrying",
                            extra={"database": rows.name, "table": PACKETS, "reason": e.detail},
                        )
                    self._warned.add(rows.name)
                else:
                    self._prepared.add(rows.name)
                    self._warned.discard(rows.name)

    async def _trim(self) -> None:
        if time.monotonic() < self._next_trim:
            return
        self._next_trim = time.monotonic() + _TRIM_SECONDS
        self._journal.prune(self._clock())
        self._prepared.clear()  # a table that was dropped is created again
        has_syslog = any(e.table == SYSLOG for e in self._entrances) and not self._unindexed
        for rows in self._databases:
            try:
                await asyncio.to_thread(rows.trim, syslog=has_syslog)
            except InfrastructureError as e:
                log.warning("rows cannot be trimmed", extra={"database": rows.name, "reason": e.detail})

    def _is_due(self, tracer: Tracer, now: float, *, only_open: bool) -> bool:
        if only_open:
            return _is_open(tracer, with_lake=False) and now - tracer.sent_at <= self._limits.late
        return _is_open(tracer, with_lake=self._lake is not None) or now - tracer.sent_at <= self._limits.lost

    def _is_fresh(self) -> bool:
        """Return whether a tracer may land at any moment."""
        now = self._clock()
        return any(self._is_due(t, now, only_open=True) for t in self._journal.tracers.values())

    def _shown(self, now: float) -> Iterator[Tracer]:
        return (t for t in self._journal.tracers.values() if now - t.sent_at <= _SHOWN_SECONDS)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return


def _is_open(tracer: Tracer, *, with_lake: bool) -> bool:
    return any(
        watch.landed_at is None and watch.result in OPEN
        for destination, watch in tracer.watches.items()
        if with_lake or not destination.is_in_lake
    )
