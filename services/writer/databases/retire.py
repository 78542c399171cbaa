"""Retires databases that are no longer configured: parks their waiting events, then ends their markers.

Invariant: a request is answered only after all its events are on the topic of parked events, and the index
keeps every marker until then.  A writer that crashes in between starts again, and parks the same events
under the same keys.  No database is queried: the retired database is gone, and its events belong to no other.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final

import pyarrow as pa

from services.writer.databases.database_states import Databases
from services.writer.databases.diverted_index import DivertedIndex
from services.writer.databases.drain import Drainer, Events
from services.writer.kafka.cluster import Cluster
from services.writer.kafka.producer import RecordMetadata
from services.writer.model.routes import Routes
from services.writer.model.targets import Target
from services.writer.park import parked_topic
from services.writer.park.diverted_topic import EmptyRanges, RangeMarker, as_slice, parse_header
from services.writer.park.parked_topic import ParkedRecord
from services.writer.partitions.partition_halts import Entry
from services.writer.partitions.plan_log import PlanLog
from services.writer.partitions.retirements import REQUEST, RetireRequest, names_in
from services.writer.persist.row_results import all_parked
from services.writer.postgres.database_threads import in_own_thread
from services.writer.settle import event_log
from services.writer.settle.no_longer_routed import find_no_longer_routed
from services.writer.settle.parked_rows import by_partition, parked_records
from services.writer.sort.route_lookup import lookup_for
from services.writer.sort.sort import sort
from shared import failpoints, wire
from shared.errors import DATABASE_RETIRED, LEDGER_GAP, InfrastructureError, UserError
from shared.kafka_security import Brokers

log = logging.getLogger(__name__)

_ONLY: Final = 0


class Retire:
    """Carries out operators' requests to retire databases that are not configured."""

    def __init__(
        self,
        cluster: Cluster,
        databases: Databases,
        plan_log: PlanLog,
        index: DivertedIndex,
        *,
        drainer: Drainer,
        brokers: Brokers,
        record: Callable[[Iterable[Entry]], Awaitable[None]],
        event_lines: int = 0,
    ) -> None:
        """`record` appends to `onramp.settled`."""
        self._cluster = cluster
        self._databases = databases
        self._plan_log = plan_log
        self._index = index
        self._drainer = drainer
        self._brokers = brokers
        self._record = record
        self._event_lines = event_lines
        self._read_to = plan_log.read_to

    async def tick(self) -> bool:
        """Carry out the pending requests; return whether there were any.

        Nothing is read while every database with a baseline or a marker is configured.
        """
        known = {*names_in(self._plan_log.baselines), *self._index.databases()}
        if known - set(self._databases.names):
            await self._read_requests()
        pending = self._plan_log.retirements.pending()
        for name, request in pending.items():
            await self._carry_out(name, request)
        return bool(pending)

    async def _read_requests(self) -> None:
        async for record in self._cluster.log(wire.SETTLED, {_ONLY: self._read_to}):
            self._read_to = record.offset + 1
            if (record.key or b"").startswith(f"{REQUEST}/".encode()):
                self._plan_log.read(record.key, record.value)

    async def _carry_out(self, name: str, request: RetireRequest) -> None:
        extra = {"database": name, "by": request.by}
        if name in self._databases.names:
            await self._record(self._plan_log.retirements.done_entries(name, request, None))
            log.error("cannot retire a configured database: remove it from the settings", extra=extra)
            return
        waiting, upto = await self._waiting(name)
        ends = {i: waiting.highest_known(i) for i in waiting.generations(name)}
        parked = await self._park_all(name, request, waiting)
        failpoints.reach("writer.before_retired")
        await self._record(self._plan_log.retirements.done_entries(name, request, upto))
        self._index.remove_settled(name, ends)
        log.warning("retired a database and parked its waiting events", extra=extra | {"parked": parked})

    async def _waiting(self, name: str) -> tuple[DivertedIndex, dict[int, int]]:
        """Return the markers for `name`, and the offsets read up to: a zombie may divert more later."""
        waiting, upto = DivertedIndex(), dict[int, int]()
        over = self._plan_log.retirements.is_over
        async for record in self._cluster.log(wire.SYSTEM_ERRORS):
            header = parse_header(dict(record.headers))
            if header is None or header.database != name or over(name, record.partition, record.offset):
                continue
            if isinstance(header, (RangeMarker, EmptyRanges)):
                waiting.add(header, RecordMetadata(record.partition, record.offset), record.timestamp / 1000)
                upto[record.partition] = record.offset + 1
        return waiting, upto

    async def _park_all(self, name: str, request: RetireRequest, waiting: DivertedIndex) -> int:
        """Park the events of `waiting`; return the number of (event, table) pairs."""
        error = UserError(DATABASE_RETIRED, f"retired by {request.by}: {request.reason}")
        parked = 0
        while waiting.has_waiting(name):
            for empty in [marker for of_one in waiting.leading_empty(name) for marker in of_one]:
                waiting.remove_settled(name, {empty.range.generation: empty.range.end})
            left = waiting.next(name)
            async for marker, events in self._drainer.ranges(name, left):
                if len(events) != marker.count:
                    extra = {"database": name, "range": str(marker.range), "left": len(events)}
                    log.error("a diverted range has lost events; parking the remaining ones", extra=extra)
                parked += await in_own_thread(self._park, marker, events, error)
                waiting.remove_settled(name, {marker.range.generation: marker.range.end})
                left = [w for w in left if w.marker != marker]
            if left:
                raise InfrastructureError(
                    LEDGER_GAP, f"{name}: markers are missing that were on {wire.SYSTEM_ERRORS}"
                )
        return parked

    def _park(self, marker: RangeMarker, events: Events, error: UserError) -> int:
        """Park the events of `marker` (blocking).  Raises `InfrastructureError`."""
        routes = self._plan_log.routes.get(marker.digest) or Routes(marker.database)
        records, pieces = list[ParkedRecord](), list[event_log.Piece]()
        for target, rows in _rows(marker, events, routes):
            result = all_parked(rows, error)
            ids = rows.column("_id").to_pylist() if "_id" in rows.column_names else [None] * rows.num_rows
            logged = [(p.partition, p.offset, ids[p.row_index], p.error) for p in result.parked]
            pieces.append(event_log.Parked(logged, step=error.step, target=target))
            for partition, parked in by_partition(result, ()).items():
                arrived = as_slice(partition, {p.offset: events[p.offset] for p in parked}).rows
                table = pa.Table.from_batches([arrived])
                records += parked_records(target, marker.range.topic_id, table, parked, rows)
        if left := parked_topic.publish(self._brokers, records):
            raise left.error
        event_log.write(self._event_lines, pieces)
        return len(records)


def _rows(marker: RangeMarker, events: Events, routes: Routes) -> Iterator[tuple[Target, pa.Table]]:
    """Yield each target table of the events in the database, with its rows."""
    name, records = marker.database, as_slice(marker.range.partition, events)
    (sorted_events,) = sort([records], routes)
    offsets = set[int]()
    for target, rows in sorted_events.tables.items():
        if target.database == name:
            offsets.update(rows.column("_offset").to_pylist())
            yield target, pa.Table.from_batches([rows])
    for event in find_no_longer_routed(records, offsets, sorted_events.unroutable, name, lookup_for(routes)):
        yield event.target, pa.Table.from_batches([event.origin])
