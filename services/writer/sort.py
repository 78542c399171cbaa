"""SORT: to which tables an event goes, or why a destination of its is none.

A packet says so itself, as far as its topic's grants go; an envelope goes where its event
name is routed, else to that name's landing table.  A run is sorted as columns: the values
are read hundreds at a time, and each table's rows are made a whole column at once.
"""

from collections import defaultdict
from dataclasses import dataclass, field

import pyarrow as pa

from services.writer import landing
from services.writer.arrivals import Run
from services.writer.envelopes import Record, read
from services.writer.packets import Destinations, destinations
from services.writer.routes import Routes
from services.writer.targets import Target
from shared.errors import UserError


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
        if not self.unroutable:
            return 0
        routed = {o for rows in self.tables.values() for o in rows.column("_offset").to_pylist()}
        return len({u.offset for u in self.unroutable} - routed)


class _Sorting:
    """One run on its way: where each record goes, by its place in the run."""

    def __init__(self, run: Run, routes: Routes) -> None:
        self._run = run
        self._routes = routes
        self._by_event = {r.event_name: _routed(r.event_name, routes) for r in routes.event_routes}
        self._by_context: dict[bytes, Destinations] = {}
        self.places: dict[Target, list[int]] = defaultdict(list)
        self.unroutable: list[Unroutable] = []

    def take(self, at: int, record: Record | UserError) -> None:
        """Note where the record goes that stands at place `at`."""
        if isinstance(record, UserError):
            self._refuse(at, "", record)
            return
        context = bytes(record.pipeline_context)
        if not context:
            for target in self._by_event.get(record.event_name) or self._targets_of(record.event_name):
                self.places[target].append(at)
            return
        if context not in self._by_context:
            self._by_context[context] = destinations(context, self._run.partition.topic, self._routes)
        found = self._by_context[context]
        for target in found.targets:
            self.places[target].append(at)
        for pointer, error in found.refused:
            self._refuse(at, pointer, error)

    def _targets_of(self, name: str) -> tuple[Target, ...]:
        if name not in self._by_event:
            self._by_event[name] = (Target(self._routes.default_database, landing.SCHEMA, name),)
        return self._by_event[name]

    def _refuse(self, at: int, destination: str, error: UserError) -> None:
        rows = self._run.rows
        value = rows.column("value")[at].as_py()
        self.unroutable.append(Unroutable(rows.column("offset")[at].as_py(), value, error, destination))


def sort(run: Run, routes: Routes) -> Sorted:
    """Sort the records of `run` by their destinations, as `routes` say."""
    records = read(run.rows.column("value"))
    sorting = _Sorting(run, routes)
    for at, record in enumerate(records):
        sorting.take(at, record)
    out = Sorted(unroutable=sorting.unroutable)
    for target, places in sorting.places.items():
        arrivals = run.rows if len(places) == len(records) else run.rows.take(places)
        out.tables[target] = landing.rows(run.partition, arrivals, [records[at] for at in places])  # type: ignore[misc]
    placed = set().union(*sorting.places.values())
    assert len(placed) + out.events_unroutable() == len(records)  # noqa: S101 - none got lost
    return out


def _routed(name: str, routes: Routes) -> tuple[Target, ...]:
    """The tables that events of `name` are routed to, each once."""
    found = [
        routes.typed(r.database, r.schema, r.table) if r.table else Target(r.database, landing.SCHEMA, name)
        for r in routes.event_routes
        if r.event_name == name
    ]
    return tuple(dict.fromkeys(found))
