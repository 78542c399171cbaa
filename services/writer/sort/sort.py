"""SORT: finds the tables that an event goes to, and the reason why a destination is rejected.

A packet names its tables, within its topic's grants.  An envelope goes to the routes of its event name, or
without a route to that name's landing table.  Slices are sorted as columns: values are parsed hundreds at a
time, and each table's rows are built by whole columns.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

import numpy as np
import pyarrow as pa

from services.writer.changes.sort_changes import read_changes
from services.writer.model.routes import Routes, SourceRoute
from services.writer.model.targets import Target
from services.writer.sort.packets import destinations
from services.writer.sort.route_lookup import RouteLookup, lookup_for
from shared.errors import UserError
from shared.kafka_read.identity import identities
from shared.kafka_read.records import PartitionSlice
from shared.parked_record import UNKNOWN, Identity
from shared.parse.events import Events, RowIndices
from shared.parse.slices import Parsed, parse


@dataclass(frozen=True, slots=True)
class Unroutable:
    """An event, or one of its destinations, that is parked without a database.

    `destination` is the JSON Pointer to that destination in the packet, empty for the whole
    event: an event can be parked for some of its destinations and land in the others.
    """

    offset: int
    value: bytes | None
    error: UserError
    destination: str = ""
    _: KW_ONLY
    identity: Identity = UNKNOWN


@dataclass(slots=True)
class Sorted:
    """The result of one slice: each (event, destination) is in exactly one of the two fields."""

    tables: dict[Target, pa.RecordBatch] = field(default_factory=dict)
    unroutable: list[Unroutable] = field(default_factory=list)

    def events_unroutable(self) -> int:
        """Return the number of events without a valid destination."""
        return len({u.offset for u in self.unroutable} - self._routed()) if self.unroutable else 0

    def events(self) -> int:
        """Return the number of events in either field, each counted once."""
        if len(self.tables) == 1 and not self.unroutable:
            return sum(rows.num_rows for rows in self.tables.values())
        return len(self._routed() | {u.offset for u in self.unroutable})

    def _routed(self) -> set[int]:
        return {o for rows in self.tables.values() for o in rows.column("_offset").to_pylist()}


class _Sorting:
    """Collects, for one slice, the row indices of each table and the events without a table."""

    def __init__(self, source: PartitionSlice, events: Events, routing: RouteLookup) -> None:
        """`events`: the events of `source`, in its order."""
        self._source = source
        self._events = events
        self._routing = routing
        self._indices: dict[Target, list[RowIndices]] = defaultdict(list)
        self._rejected: list[tuple[int, str, UserError]] = []

    def route(self) -> None:
        """Route each event."""
        events = self._events
        self._reject_unread()
        for name, indices in events.by_name().items():
            for target in self._routing.tables_of(name):
                self._indices[target].append(indices)
        for context, indices in events.by_context().items():
            self._route_by_context(indices, context)

    def place(self, indices: Mapping[Target, RowIndices]) -> None:
        """Add the targets of changes, as `read_changes` returns them."""
        self._reject_unread()
        for target, of_target in indices.items():
            self._indices[target].append(of_target)

    def indices(self) -> dict[Target, RowIndices]:
        """Return each table's row indices, ascending."""
        return {
            target: parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))
            for target, parts in self._indices.items()
        }

    def unroutable(self) -> list[Unroutable]:
        """Return the events and destinations that are rejected, by offset."""
        if not self._rejected:
            return []
        rejected = sorted(self._rejected, key=lambda r: r[0])
        indices = pa.array([i for i, _, _ in rejected])
        records, events = self._source.rows.take(indices), self._events.columns.take(indices)
        metadata = (events.column(name).to_pylist() for name in ("id", "event_name", "version"))
        offsets, values = records.column("offset").to_pylist(), records.column("value").to_pylist()
        return [
            Unroutable(offset, value, error, destination, identity=identity)
            for offset, value, (_, destination, error), identity in zip(
                offsets, values, rejected, identities(records, *metadata), strict=True
            )
        ]

    def __len__(self) -> int:
        return len(self._source)

    def _reject_unread(self) -> None:
        self._rejected += [(i, "", error) for i, error in self._events.errors.items()]

    def _route_by_context(self, indices: RowIndices, context: bytes) -> None:
        """Route events by the destinations that their `pipeline_context` names."""
        named = destinations(context, self._source.partition.topic, self._routing)
        for target in named.targets:
            self._indices[target].append(indices)
        for pointer, error in named.rejected:
            self._rejected += [(i, pointer, error) for i in indices.tolist()]


def sort(slices: Sequence[PartitionSlice], routes: Routes) -> Iterator[Sorted]:
    """Sort the records of each slice by their destinations under `routes`; yield a result for each, in order.

    No event is dropped: each event is in its slice's result (asserted).
    """
    if not slices:
        return
    routing = lookup_for(routes)
    sources = [routing.source_of(one.partition.topic) for one in slices]
    of_events = [one for one, source in zip(slices, sources, strict=True) if source is None]
    sorted_events = sort_parsed(parse(of_events), routes) if of_events else iter(())
    for one, source in zip(slices, sources, strict=True):
        yield next(sorted_events) if source is None else _sort_changes(one, source, routing)


def sort_parsed(parsed: Parsed, routes: Routes) -> Iterator[Sorted]:
    """Sort parsed records as `sort` does."""
    routing, start = lookup_for(routes), 0
    for one in parsed.slices:
        sorting = _Sorting(one, parsed.events.slice(start, len(one)), routing)
        sorting.route()
        yield _sorted(sorting, parsed.rows.slice(start, len(one)))
        start += len(one)


def _sort_changes(part: PartitionSlice, source: SourceRoute, routing: RouteLookup) -> Sorted:
    events, rows, indices = read_changes(part, source)
    sorting = _Sorting(part, events, routing)
    sorting.place(indices)
    return _sorted(sorting, rows)


def _sorted(sorting: _Sorting, rows: pa.RecordBatch) -> Sorted:
    """Return the result of `sorting`; `rows` are the slice's rows, in its order."""
    out = Sorted(unroutable=sorting.unroutable())
    for target, indices in sorting.indices().items():
        out.tables[target] = rows if len(indices) == len(sorting) else rows.take(pa.array(indices))
    assert out.events() == len(sorting)  # noqa: S101 - no event was lost
    return out
