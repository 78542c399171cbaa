"""The drainer: lands diverted ranges in a database that is up again, range by range, in order.

The drainer is part of the writer and uses its epoch (the model's rule `drain_epoch`).  A marker's range
runs through the same task as a batch's range: lock, compare, write and advance in one transaction.  A
settled prefix is skipped, and a gap halts (`drain_locked`, `drain_prefix`, `drain_gap`).  Over ranges
without events the ledger advances for all partitions at once.
"""

import logging
from bisect import bisect_left
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from services.writer.batching.row_rates import RateLimiter
from services.writer.databases.diverted_index import DivertedIndex, DivertedRange, lowest
from services.writer.kafka.cluster import Cluster
from services.writer.kafka.producer import RecordMetadata
from services.writer.model.routes import Routes
from services.writer.park import outbox
from services.writer.park.diverted_topic import EventHeader, RangeMarker, as_slice, parse_header
from services.writer.postgres.database import Database
from services.writer.postgres.database_threads import in_own_thread
from services.writer.postgres.pool import transaction
from services.writer.settle import ledger
from services.writer.settle.event_type_pauses import PausePolicy
from services.writer.settle.task import Task
from services.writer.settle.work_order import TaskReport, WorkOrder
from shared import failpoints, wire
from shared.errors import INTERNAL_WRITER, LEDGER_GAP, InfrastructureError, OnrampError
from shared.kafka_read.offsets import Generation, Partition, Range
from shared.kafka_read.records import values_of
from shared.kafka_security import Brokers

log = logging.getLogger(__name__)

#: Header, value, gateway's received-at.
Event = tuple[EventHeader, bytes | None, bytes | None]
#: Events by offset in their own topic.
Events = dict[int, Event]


class Drainer:
    """Drains databases; each call drains one database."""

    def __init__(
        self,
        cluster: Cluster,
        index: DivertedIndex,
        rate_limiter: RateLimiter,
        *,
        epoch: int,
        brokers: Brokers,
        pause_policy: PausePolicy,
        on_reports: Callable[[Sequence[TaskReport]], None],
        event_lines: int = 0,
    ) -> None:
        self._cluster = cluster
        self._index = index
        self._rate_limiter = rate_limiter
        self._epoch = epoch
        self._brokers = brokers
        self._pause_policy = pause_policy
        self._on_reports = on_reports
        self._event_lines = event_lines

    async def drain(self, database: Database, routes: Mapping[str, Routes]) -> int:
        """Land every diverted range of `database`; return the number of ranges.

        Raises `InfrastructureError` at the first range that cannot land; earlier ranges have landed.
        """
        drained = 0
        while self._index.has_waiting(database.name):
            drained += await self._advance_empty(database)
            drained += await self._drain_ranges(database, routes, self._index.next(database.name))
        return drained

    async def incomplete_markers(self, database: Database, routes: Mapping[str, Routes]) -> list[RangeMarker]:
        """Return the markers of `database` that cannot drain, each with the number of remaining events."""
        waiting = self._index.next(database.name)
        incomplete = {w.marker.range: replace(w.marker, count=0) for w in waiting}
        async for marker, events in self.ranges(database.name, waiting):
            if _problem(marker, events, routes):
                incomplete[marker.range] = replace(marker, count=len(events))
            else:
                del incomplete[marker.range]
        for w in waiting:
            if incomplete_one := incomplete.get(w.marker.range):
                log.error(
                    "a diverted range has lost events; the remaining events will land",
                    extra={
                        "database": database.name,
                        "range": str(incomplete_one.range),
                        "counted": w.marker.count,
                        "left": incomplete_one.count,
                    },
                )
        return list(incomplete.values())

    async def _drain_ranges(
        self, database: Database, routes: Mapping[str, Routes], waiting: Sequence[DivertedRange]
    ) -> int:
        """Land the ranges of `waiting`, whose markers are on the topic in this order."""
        drained = 0
        async for marker, events in self.ranges(database.name, waiting):
            known = _routes_of(database, marker, events, routes)
            # Includes empty ranges that were added meanwhile: batches are written during a drain.
            await self._advance_empty(database, [marker.range.generation])
            for piece, its_events in pieces(marker.range, events, self._rate_limiter.burst(database.name)):
                await self._rate_limiter.wait(database.name)
                reports = await in_own_thread(self._land_or_wait, database, piece, its_events, known)
                self._rate_limiter.count(reports)
                self._on_reports(reports)
            failpoints.reach("writer.mid_drain")
            self._index.remove_settled(database.name, {marker.range.generation: marker.range.end})
            drained += 1
        if drained < len(waiting):
            raise InfrastructureError(
                LEDGER_GAP, f"{database.name}: markers are missing that were on {wire.SYSTEM_ERRORS}"
            )
        return drained

    async def _advance_empty(self, database: Database, of: Collection[Generation] | None = None) -> int:
        """Settle leading ranges without events, of all partitions together; return their number."""
        moved = 0
        for digest, ranges in grouped(self._index.leading_empty(database.name, of)):
            await in_own_thread(self._advance, database, ranges, digest)
            for r in ranges:
                self._index.remove_settled(database.name, {r.generation: r.end})
            moved += len(ranges)
        return moved

    def _advance(self, database: Database, ranges: Sequence[Range], digest: str) -> None:
        with transaction(database, "driver") as conn:
            next_offsets = ledger.lock(conn, ranges, self._epoch)
            ledger.advance(
                conn, [r for r in ranges if next_offsets[r.partition] < r.end], self._epoch, digest
            )

    async def ranges(
        self, database: str, waiting: Sequence[DivertedRange]
    ) -> AsyncIterator[tuple[RangeMarker, Events]]:
        """Read the topic and yield each marker of `waiting` with its events, in the order of the topic."""
        if not waiting:
            return
        pending = {w.metadata: w.marker for w in waiting}
        events: dict[Partition, dict[int, tuple[int, Event]]] = defaultdict(dict)
        async for record in self._cluster.log(wire.SYSTEM_ERRORS, lowest(waiting)):
            headers = dict(record.headers)
            head = parse_header(headers)
            if head is None:
                self._cluster.foreign.pass_over(wire.SYSTEM_ERRORS, record.partition, record.offset)
            elif head.database != database:
                pass
            elif isinstance(head, EventHeader):
                source = Partition(head.topic, head.partition)
                event = (head, record.value, headers.get(wire.HEADER_RECEIVED_AT))
                events[source][head.offset] = record.offset, event
            elif marker := pending.pop(RecordMetadata(record.partition, record.offset), None):
                arrived = events[marker.range.partition]
                yield (
                    marker,
                    {o: e for o, (position, e) in arrived.items() if _is_counted_by(marker, o, position)},
                )
                events[marker.range.partition] = {o: e for o, e in arrived.items() if o >= marker.range.end}
            if not pending:
                return

    def _land_or_wait(
        self, database: Database, piece: Range, events: Events, routes: Routes
    ) -> list[TaskReport]:
        """Land `piece`; an unexpected exception becomes this database's `InfrastructureError`."""
        try:
            return self._land(database, piece, events, routes)
        except (OnrampError, MemoryError):
            raise
        except Exception as e:
            log.exception("a diverted range cannot drain because of an unexpected error")
            raise InfrastructureError(INTERNAL_WRITER, f"{piece} cannot drain: {type(e).__name__}") from None

    def _land(self, database: Database, piece: Range, events: Events, routes: Routes) -> list[TaskReport]:
        order = WorkOrder(
            epoch=self._epoch,
            ranges={piece.partition: piece},
            landing=(database,),
            diverted=(),
            routes=routes,
            brokers=self._brokers,
            pause_policy=self._pause_policy,
            event_lines=self._event_lines,
        )
        task, records = Task(order), as_slice(piece.partition, events)
        failpoints.meet("writer.drain", values_of([records]))
        task.filter_and_sort([records])
        task.collect_no_longer_routed(database)
        task.land(database)
        reports = task.report()
        for report in reports:
            if report.error:
                raise report.error
        if any(report.parked for report in reports):
            outbox.relay(database, self._brokers)
        return reports


def pieces(whole: Range, events: Events, max_events: int | None) -> Iterator[tuple[Range, Events]]:
    """Yield `whole` and its events in pieces of at most `max_events` events; each piece lands by itself."""
    offsets = sorted(events)
    starts = [whole.start, *(offsets[max_events::max_events] if max_events else ())]
    for start, end in zip(starts, [*starts[1:], whole.end], strict=True):
        its_events = {o: events[o] for o in offsets[bisect_left(offsets, start) : bisect_left(offsets, end)]}
        yield Range(whole.topic_id, whole.partition, start, end), its_events


def grouped(partitions: Sequence[Sequence[RangeMarker]]) -> Iterator[tuple[str, list[Range]]]:
    """Yield the ranges of one transaction: ranges of one digest, one of each partition, in order."""
    remaining = [list(reversed(markers)) for markers in partitions]
    while remaining:
        digest = remaining[0][-1].digest
        ranges: dict[Partition, Range] = {}
        for markers in remaining:
            of = markers[-1].range.partition
            if markers[-1].digest == digest and of not in ranges:
                ranges[of] = markers.pop().range
        yield digest, list(ranges.values())
        remaining = [markers for markers in remaining if markers]


def _is_counted_by(marker: RangeMarker, offset: int, position: int) -> bool:
    """Return whether `marker` counts the event of source `offset`, which is at `position` on the topic.

    Events before the marker's first event belong to an older marker of the range, which it replaces.
    """
    return bool(marker.count) and position >= marker.first and marker.range.start <= offset < marker.range.end


def _routes_of(
    database: Database, marker: RangeMarker, events: Events, routes: Mapping[str, Routes]
) -> Routes:
    """Return the routes of a marker whose events are complete.  Raises `InfrastructureError`."""
    if problem := _problem(marker, events, routes):
        raise InfrastructureError(LEDGER_GAP, f"{marker.range} of {database.name}: {problem}")
    return routes[marker.digest]


def _problem(marker: RangeMarker, events: Events, routes: Mapping[str, Routes]) -> str:
    """Return why the events of `marker` cannot drain; empty when they can (`count_distinct`)."""
    if marker.digest not in routes:
        return f"its routes {marker.digest} are missing in {wire.SETTLED}: its destinations are unknown"
    if len(events) != marker.count:
        return f"its marker counts {marker.count} events, {wire.SYSTEM_ERRORS} holds {len(events)}"
    return ""
