"""The drainer: lands what waits for a database that is back, range by range, in order.

It is part of the writer and has its epoch.  A marker's range goes through the same task as
a batch's: lock, compare, write, advance in one transaction; a settled prefix is skipped
and a gap halts.  Where there are no events the ledger is moved on over all partitions at once.
"""

import logging
from bisect import bisect_left
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from services.writer.kafka.cluster import Cluster
from services.writer.kafka.producer import RecordMetadata
from services.writer.model.offsets import Incarnation, Partition, Range
from services.writer.model.records import values_of
from services.writer.model.routes import Routes
from services.writer.park import outbox
from services.writer.park.diverted_topic import EventHead, RangeMarker, as_slice, parse_header
from services.writer.plan.row_rates import RateLimiter
from services.writer.postgres.database import Database
from services.writer.postgres.database_threads import in_own_thread
from services.writer.postgres.pool import transaction
from services.writer.recover.diverted_index import DivertedIndex, DivertedRange, lowest
from services.writer.settle import ledger
from services.writer.settle.pause_policy import PausePolicy
from services.writer.settle.task import Task
from services.writer.settle.work_order import TaskReport, WorkOrder
from shared import failpoints, wire
from shared.errors import INTERNAL_WRITER, LEDGER_GAP, InfrastructureError, OnrampError
from shared.kafka_security import Brokers

log = logging.getLogger(__name__)

#: Header, value, gateway's received-at.
Event = tuple[EventHead, bytes | None, bytes | None]
#: By offset of the event in its own topic.
Events = dict[int, Event]


class Drainer:
    """Drains one database.  Opened for one pass over what waits now."""

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
        log_events: bool = False,
    ) -> None:
        self._cluster = cluster
        self._index = index
        self._rate_limiter = rate_limiter
        self._epoch = epoch
        self._brokers = brokers
        self._pause_policy = pause_policy
        self._on_reports = on_reports
        self._log_events = log_events

    async def drain(self, database: Database, routes: Mapping[str, Routes]) -> int:
        """Land every range that waits for `database`; returns how many there were.

        Raises `InfrastructureError` at the first that cannot land; those before it have.
        """
        drained = 0
        while self._index.waits(database.name):
            drained += await self._move_on(database)
            drained += await self._pass(database, routes, self._index.next(database.name))
        return drained

    async def lost(self, database: Database, routes: Mapping[str, Routes]) -> list[RangeMarker]:
        """Of what waits for `database`, the markers that cannot drain, with the events that are there."""
        waiting = self._index.next(database.name)
        found = {w.marker.range: replace(w.marker, count=0) for w in waiting}
        async for marker, events in self._ranges(database.name, waiting):
            if _trouble(marker, events, routes):
                found[marker.range] = replace(marker, count=len(events))
            else:
                del found[marker.range]
        for w in waiting:
            if left := found.get(w.marker.range):
                log.error(
                    "what waits cannot drain; what Kafka still has of it is to land",
                    extra={
                        "database": database.name,
                        "range": str(left.range),
                        "counted": w.marker.count,
                        "left": left.count,
                    },
                )
        return list(found.values())

    async def _pass(
        self, database: Database, routes: Mapping[str, Routes], waiting: Sequence[DivertedRange]
    ) -> int:
        """Land the ranges of `waiting`, which stand on the topic in their order."""
        drained = 0
        async for marker, events in self._ranges(database.name, waiting):
            known = _checked(database, marker, events, routes)
            # What passed it by in the meantime too: batches go on beside this.
            await self._move_on(database, [marker.range.incarnation])
            for piece, of_it in pieces(marker.range, events, self._rate_limiter.burst(database.name)):
                await self._rate_limiter.wait(database.name)
                lines = await in_own_thread(self._land_or_wait, database, piece, of_it, known)
                self._rate_limiter.count(lines)
                self._on_reports(lines)
            failpoints.reach("writer.mid_drain")
            self._index.remove_settled(database.name, {marker.range.incarnation: marker.range.end})
            drained += 1
        if drained < len(waiting):
            raise InfrastructureError(
                LEDGER_GAP, f"{database.name}: markers that were on {wire.SYSTEM_ERRORS} are there no more"
            )
        return drained

    async def _move_on(self, database: Database, of: Collection[Incarnation] | None = None) -> int:
        """Settle what has no events and comes first, of all partitions together; returns how many ranges."""
        moved = 0
        for digest, ranges in together(self._index.leading(database.name, of)):
            await in_own_thread(self._advance, database, ranges, digest)
            for r in ranges:
                self._index.remove_settled(database.name, {r.incarnation: r.end})
            moved += len(ranges)
        return moved

    def _advance(self, database: Database, ranges: Sequence[Range], digest: str) -> None:
        with transaction(database, "driver") as conn:
            at = ledger.lock(conn, ranges, self._epoch)
            ledger.advance(conn, [r for r in ranges if at[r.partition] < r.end], self._epoch, digest)

    async def _ranges(
        self, database: str, waiting: Sequence[DivertedRange]
    ) -> AsyncIterator[tuple[RangeMarker, Events]]:
        """Each marker of `waiting` with its events, in the order of the topic."""
        if not waiting:
            return
        wanted = {w.place: w.marker for w in waiting}
        events: dict[Partition, dict[int, tuple[int, Event]]] = defaultdict(dict)
        async for record in self._cluster.log(wire.SYSTEM_ERRORS, lowest(waiting)):
            headers = dict(record.headers)
            head = parse_header(headers)
            if head is None:
                self._cluster.foreign.pass_over(wire.SYSTEM_ERRORS, record.partition, record.offset)
            elif head.database != database:
                pass
            elif isinstance(head, EventHead):
                source = Partition(head.topic, head.partition)
                event = (head, record.value, headers.get(wire.HEADER_RECEIVED_AT))
                events[source][head.offset] = record.offset, event
            elif marker := wanted.pop(RecordMetadata(record.partition, record.offset), None):
                held = events[marker.range.partition]
                yield marker, {o: e for o, (at, e) in held.items() if _is_of(marker, o, at)}
                events[marker.range.partition] = {o: e for o, e in held.items() if o >= marker.range.end}
            if not wanted:
                return

    def _land_or_wait(
        self, database: Database, piece: Range, events: Events, routes: Routes
    ) -> list[TaskReport]:
        """`_land`; what it fails at for a reason that nobody foresaw waits, and harms no other database."""
        try:
            return self._land(database, piece, events, routes)
        except (OnrampError, MemoryError):
            raise
        except Exception as e:
            log.exception("what waits cannot drain for a reason that the writer does not know")
            raise InfrastructureError(INTERNAL_WRITER, f"{piece} cannot drain: {type(e).__name__}") from None

    def _land(self, database: Database, piece: Range, events: Events, routes: Routes) -> list[TaskReport]:
        order = WorkOrder(
            self._epoch,
            {piece.partition: piece},
            (database,),
            (),
            routes,
            self._brokers,
            self._pause_policy,
            self._log_events,
        )
        task, run = Task(order), as_slice(piece.partition, events)
        failpoints.meet("writer.drain", values_of([run]))
        task.take([run])
        task.expect(database)
        task.land(database)
        lines = task.report()
        for line in lines:
            if line.error:
                raise line.error
        if any(line.parked for line in lines):
            outbox.relay(database, self._brokers)
        return lines


def pieces(whole: Range, events: Events, max_events: int | None) -> Iterator[tuple[Range, Events]]:
    """Yield `whole` and its events in pieces of at most `max_events` events: each lands by itself."""
    offsets = sorted(events)
    starts = [whole.start, *(offsets[max_events::max_events] if max_events else ())]
    for start, end in zip(starts, [*starts[1:], whole.end], strict=True):
        of_it = {o: events[o] for o in offsets[bisect_left(offsets, start) : bisect_left(offsets, end)]}
        yield Range(whole.topic_id, whole.partition, start, end), of_it


def together(lanes: Sequence[Sequence[RangeMarker]]) -> Iterator[tuple[str, list[Range]]]:
    """What may be settled in one transaction: of one digest, of a partition once, each lane in its order."""
    left = [list(reversed(lane)) for lane in lanes]
    while left:
        digest = left[0][-1].digest
        found: dict[Partition, Range] = {}
        for lane in left:
            of = lane[-1].range.partition
            if lane[-1].digest == digest and of not in found:
                found[of] = lane.pop().range
        yield digest, list(found.values())
        left = [lane for lane in left if lane]


def _is_of(marker: RangeMarker, offset: int, at: int) -> bool:
    """Whether the event of source `offset`, which stands `at` on the topic, is one that `marker` counts.

    One before its first is what an older marker of the range had, which this one replaces.
    """
    return bool(marker.count) and at >= marker.first and marker.range.start <= offset < marker.range.end


def _checked(database: Database, marker: RangeMarker, events: Events, routes: Mapping[str, Routes]) -> Routes:
    """The routes of a marker whose events are all there.  Raises `InfrastructureError`."""
    if why := _trouble(marker, events, routes):
        raise InfrastructureError(LEDGER_GAP, f"{marker.range} of {database.name}: {why}")
    return routes[marker.digest]


def _trouble(marker: RangeMarker, events: Events, routes: Mapping[str, Routes]) -> str:
    """Why the events of `marker` cannot drain, or nothing."""
    if marker.digest not in routes:
        return f"its routes {marker.digest} are not in {wire.SETTLED}, so nobody knows where its events go"
    if len(events) != marker.count:
        return f"its marker counts {marker.count} events, {wire.SYSTEM_ERRORS} holds {len(events)}"
    return ""
