"""The tables that replayed events land in: the tables of the current routes and grants, or a named table.

An event that was refused (its destination is empty, or a pointer into the packet) has only the table of the
current routes.  Sorting in the default database determines the database to which such an event belongs.
Events are parsed and sorted with the code for live events.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from psycopg2.extensions import connection

from services.writer.model.routes import Routes, is_closed
from services.writer.model.targets import Target
from services.writer.persist import encodings, landing_tables
from services.writer.replay.staged_attempts import ParkedEvent
from services.writer.sort.packets import destinations
from services.writer.sort.route_lookup import RouteLookup, lookup_for
from services.writer.sort.sort import Sorted, sort
from shared import wire
from shared.errors import AMBIGUOUS_TABLE, FORBIDDEN_DESTINATION, NOT_ROUTED, UserError
from shared.kafka_read.offsets import Partition
from shared.kafka_read.records import ARRIVALS, USUAL, PartitionSlice
from shared.parse.parse import read

_NOT_ROUTED: Final = "the current routes do not route it to the table that it was parked for"
_MOVED: Final = "the current routes route it to another database than when this attempt was sorted"
_NONE_OF_ITS_OWN: Final = "the packet names its table at another place before"


class Rejected(NamedTuple):
    """An event without a table, and its error; `destination`: its original destination."""

    partition: Partition
    offset: int
    destination: str
    error: UserError
    #: Its own id, if it can be parsed.
    id: str | None


@dataclass(frozen=True, slots=True)
class Placed:
    """The tables of events: rows by table and original destination; and the events without a table."""

    rows: dict[tuple[Target, str], list[pa.RecordBatch]] = field(default_factory=lambda: defaultdict(list))
    rejected: list[Rejected] = field(default_factory=list)
    #: Events of other databases, by database: partition, offset, and original destination.
    elsewhere: dict[str, list[tuple[Partition, int, str]]] = field(default_factory=lambda: defaultdict(list))


def place(conn: connection, database: str, events: Sequence[ParkedEvent], routes: Routes) -> Placed:
    """Return the tables of `events`, which are of one topic generation."""
    return _Placing(conn, database, lookup_for(routes)).run(events, routes)


class _Placing:
    def __init__(self, conn: connection, database: str, routing: RouteLookup) -> None:
        self._conn = conn
        self._database = database
        self._routing = routing
        self._out = Placed()

    def run(self, events: Sequence[ParkedEvent], routes: Routes) -> Placed:
        groups = list(_groups(events))
        routed = [(destination, part) for destination, to, part in groups if not to]
        for (destination, part), found in zip(
            routed, sort([part for _, part in routed], routes), strict=True
        ):
            if wire.is_refused(destination):
                self._add_refused(
                    destination, part, found, is_default=routes.default_database == self._database
                )
            else:
                self._add_routed(destination, part, found)
        for destination, to, part in groups:
            if to:
                self._add_redirected(destination, to, part)
        return self._out

    def _add_routed(self, destination: str, part: PartitionSlice, found: Sorted) -> None:
        """Add the rows for `destination`; rows of these events for other tables are not replayed."""
        left = set(part.rows.column("offset").to_pylist())
        for target, rows in found.tables.items():
            name = f"{self._database}.{encodings.spelled(self._conn, target)}"
            if target.database == self._database and name == destination:
                self._out.rows[target, destination].append(rows)
                left -= set(rows.column("_offset").to_pylist())
        errors = {u.offset: u.error for u in reversed(found.unroutable)}  # the first error of each event
        ids = {u.offset: u.identity.id for u in found.unroutable}
        for rows in found.tables.values() if left else ():
            ids |= zip(rows.column("_offset").to_pylist(), rows.column("_id").to_pylist(), strict=True)
        for offset in left:
            error = errors.get(offset) or UserError(NOT_ROUTED, _NOT_ROUTED)
            self._reject(part.partition, offset, destination, error, ids.get(offset))

    def _add_refused(
        self, destination: str, part: PartitionSlice, found: Sorted, *, is_default: bool
    ) -> None:
        """Add the rows of refused events that have exactly one table of their own now."""
        errors = {u.offset: u.error for u in reversed(found.unroutable) if u.destination in ("", destination)}
        ids = {u.offset: u.identity.id for u in found.unroutable}
        tables: dict[int, list[Target]] = defaultdict(list)
        for target, rows in found.tables.items():
            offsets = rows.column("_offset").to_pylist()
            ids |= zip(offsets, rows.column("_id").to_pylist(), strict=True)
            for offset in offsets:
                tables[offset].append(target)
        named = self._named(destination, part) if destination else {}
        chosen: dict[Target, list[int]] = defaultdict(list)
        for offset in part.rows.column("offset").to_pylist():
            targets = tables[offset]
            if destination:
                targets = [target for target in targets if target == named.get(offset)]
            error = errors.get(offset)
            if error is None and len(targets) != 1:
                routed = f"the current routes route it to {len(targets)} tables"
                error = UserError(AMBIGUOUS_TABLE, _NONE_OF_ITS_OWN if destination else routed)
            elif error is None and not is_default and targets[0].database != self._database:
                error = UserError(NOT_ROUTED, _MOVED)
            if error is None:
                chosen[targets[0]].append(offset)
            else:
                self._reject(part.partition, offset, destination, error, ids.get(offset))
        for target, offsets in chosen.items():
            if target.database == self._database:
                rows = found.tables[target]
                of_these = pc.is_in(rows.column("_offset"), pa.array(offsets, pa.int64()))
                self._out.rows[target, destination].append(rows.filter(of_these))
            else:
                self._out.elsewhere[target.database] += [(part.partition, o, destination) for o in offsets]

    def _named(self, pointer: str, part: PartitionSlice) -> dict[int, Target]:
        """Return, by offset, the table that a packet names at `pointer` for the first time."""
        offsets = part.rows.column("offset").to_pylist()
        out: dict[int, Target] = {}
        for context, indices in read(part.rows.column("value")).by_context().items():
            named = destinations(context, part.partition.topic, self._routing)
            if pointer in named.pointers:
                target = named.targets[named.pointers.index(pointer)]
                out |= {offsets[i]: target for i in indices.tolist()}
        return out

    def _add_redirected(self, destination: str, to: str, part: PartitionSlice) -> None:
        """Add rows for the table `to`, which the topic's grants or the event's own routes must allow."""
        events = read(part.rows.column("value"))
        rows = landing_tables.rows(part.rows, events.columns)
        offsets = part.rows.column("offset").to_pylist()
        ids = rows.column("_id").to_pylist()
        for i, error in events.errors.items():
            self._reject(part.partition, offsets[i], destination, error, ids[i])
        readable = pa.array([i not in events.errors for i in range(len(part))])
        for name in pc.unique(rows.column("_event_name").filter(readable)).to_pylist():
            chosen = rows.filter(pc.and_(_named(rows, name), readable))
            target = self._target(to, name)
            if self._is_allowed(part.partition.topic, target, name):
                self._out.rows[target, destination].append(chosen)
                continue
            error = UserError(FORBIDDEN_DESTINATION, f"no grant of topic {part.partition.topic} allows {to}")
            for row in chosen.select(["_offset", "_id"]).to_pylist():
                self._reject(part.partition, row["_offset"], destination, error, row["_id"])

    def _target(self, to: str, event_name: str | None) -> Target:
        """Return the table `to`; for envelopes the tables of the landing schema are landing tables."""
        schema, _, table = to.partition(".")
        if schema == landing_tables.SCHEMA and event_name is not None:
            return Target(self._database, schema, table)
        return self._routing.typed(self._database, schema, table)

    def _is_allowed(self, topic: str, target: Target, event_name: str | None) -> bool:
        if event_name is not None and target in self._routing.tables_of(event_name):
            return True
        configured = self._routing.database(self._database)
        if configured is None or is_closed(target.schema) or target.schema not in configured.schemas:
            return False
        return self._routing.allows(topic, target)

    def _reject(
        self, partition: Partition, offset: int, destination: str, error: UserError, event_id: str | None
    ) -> None:
        self._out.rejected.append(Rejected(partition, offset, destination, error, event_id))


def _named(rows: pa.RecordBatch, event_name: str | None) -> pa.Array:
    """Return a mask of the `rows` with the event name; packets have none."""
    names = rows.column("_event_name")
    return pc.is_null(names) if event_name is None else pc.equal(names, event_name).fill_null(False)


def _groups(events: Iterable[ParkedEvent]) -> Iterator[tuple[str, str, PartitionSlice]]:
    """Yield events in order, by partition: original destination, table named instead, and records."""

    def group_of(e: ParkedEvent) -> tuple[Partition, str, str]:
        return e.partition, e.destination, e.to or ""

    ordered = sorted(events, key=lambda e: (group_of(e), e.offset))
    for (partition, destination, to), group in groupby(ordered, key=group_of):
        yield destination, to, PartitionSlice(partition, _arrivals(group))


def _arrivals(events: Iterable[ParkedEvent]) -> pa.RecordBatch:
    of = list(events)
    received_at = [None if e.received_at is None else e.received_at.isoformat().encode() for e in of]
    columns = {
        "topic": [e.partition.topic for e in of],
        "partition": [e.partition.number for e in of],
        "offset": [e.offset for e in of],
        "value": [e.value for e in of],
        "received_at": received_at,
        "timestamp": [e.timestamp for e in of],
        "context": [USUAL] * len(of),
    }
    return pa.RecordBatch.from_pydict(columns, schema=ARRIVALS)
