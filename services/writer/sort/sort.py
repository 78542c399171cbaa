"""SORT: to which tables an event goes, or why a destination of its is none.

A packet says so itself, as far as its topic's grants go; an envelope goes where its event
name is routed, else to that name's landing table.  Runs are sorted as columns: the values
are read hundreds at a time, and each table's rows are made a whole column at once.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from services.writer.model.records import LARGE, PartitionSlice
from services.writer.model.routes import Routes
from services.writer.model.targets import Target
from services.writer.parse.events import Events, Places
from services.writer.parse.parse import read
from services.writer.persist import landing
from services.writer.sort.packets import destinations
from services.writer.sort.route_lookup import RouteLookup, routing_of
from shared import wire
from shared.errors import RECORD_HEADERS_TOO_LARGE, UserError


@dataclass(frozen=True, slots=True)
class Unroutable:
    """An event, or one destination of it, that is parked without a database.

    `destination` is the pointer to that destination in the packet, empty for the whole
    event: an event can be parked for several of its destinations and land in the others.
    """

    offset: int
    value: bytes | None
    error: UserError
    destination: str = ""


@dataclass(slots=True)
class Sorted:
    """What a run was sorted into: each (event, destination) is in exactly one of the two."""

    tables: dict[Target, pa.RecordBatch] = field(default_factory=dict)
    unroutable: list[Unroutable] = field(default_factory=list)

    def events_unroutable(self) -> int:
        """How many events have no destination left at all."""
        return len({u.offset for u in self.unroutable} - self._routed()) if self.unroutable else 0

    def events(self) -> int:
        """How many events are in either of the two."""
        if len(self.tables) == 1 and not self.unroutable:
            return sum(rows.num_rows for rows in self.tables.values())
        return len(self._routed() | {u.offset for u in self.unroutable})

    def _routed(self) -> set[int]:
        return {o for rows in self.tables.values() for o in rows.column("_offset").to_pylist()}


class _Sorting:
    """One run on its way: where each event goes, by its place in the run."""

    def __init__(self, run: PartitionSlice, routing: RouteLookup) -> None:
        self._run = run
        self._routing = routing
        self._places: dict[Target, list[Places]] = defaultdict(list)
        self._unroutable: list[Unroutable] = []

    def take(self, events: Events) -> None:
        """Note where each of the run's events goes."""
        for at, error in events.errors.items():
            self._refuse(at, "", error)
        for name, places in events.by_name().items():
            for target in self._routing.tables_of(name):
                self._places[target].append(places)
        for context, places in events.by_context().items():
            self._address(places, context)

    def places(self) -> dict[Target, Places]:
        """The places of each table's events, in the run's order."""
        return {
            target: found[0] if len(found) == 1 else np.sort(np.concatenate(found))
            for target, found in self._places.items()
        }

    def unroutable(self) -> list[Unroutable]:
        """What goes nowhere, in the run's order."""
        return sorted(self._unroutable, key=lambda u: u.offset)

    def _address(self, places: Places, context: bytes) -> None:
        """Note where events with this `pipeline_context` say that they go."""
        found = destinations(context, self._run.partition.topic, self._routing)
        for target in found.targets:
            self._places[target].append(places)
        for pointer, error in found.refused:
            for at in places.tolist():
                self._refuse(at, pointer, error)

    def _refuse(self, at: int, destination: str, error: UserError) -> None:
        rows = self._run.rows
        value = rows.column("value")[at].as_py()
        self._unroutable.append(Unroutable(rows.column("offset")[at].as_py(), value, error, destination))


def sort(runs: Sequence[PartitionSlice], routes: Routes) -> Iterator[Sorted]:
    """Sort the records of each of `runs` by their destinations, as `routes` say.

    The values of all are read together: of a hundred partitions each may have a few.
    """
    if not runs:
        return
    routing = routing_of(routes)
    events, at = _read(runs), 0
    for run in runs:
        yield _sort(run, events.part(at, len(run)), routing)
        at += len(run)


def _read(runs: Sequence[PartitionSlice]) -> Events:
    """What the values are; whoever's headers are too large to be read is no event, whatever its value."""
    values = pa.concat_arrays([run.rows.column("value") for run in runs])
    large = pc.equal(pa.concat_arrays([run.rows.column("context") for run in runs]), LARGE)
    if not pc.any(large).as_py():
        return read(values)
    events = read(pc.if_else(large, pa.scalar(None, values.type), values))
    errors = dict(events.errors) | {int(at): _unread() for at in np.flatnonzero(large)}
    return replace(events, errors=errors)


def _unread() -> UserError:
    detail = (
        f"{wire.HEADER_CONTEXT} and {wire.HEADER_RECEIVED_AT} have more than {wire.MOST_HEADER_BYTES:,} "
        "bytes together; the record's value is kept, its headers are not"
    )
    return UserError(RECORD_HEADERS_TOO_LARGE, detail)


def _sort(run: PartitionSlice, events: Events, routing: RouteLookup) -> Sorted:
    sorting = _Sorting(run, routing)
    sorting.take(events)
    out = Sorted(unroutable=sorting.unroutable())
    for target, places in sorting.places().items():
        whole = len(places) == len(run)
        arrivals = run.rows if whole else run.rows.take(pa.array(places))
        columns = events.columns if whole else events.columns.take(pa.array(places))
        out.tables[target] = landing.rows(run.partition, arrivals, columns)
    assert out.events() == len(run)  # noqa: S101 - none got lost
    return out
