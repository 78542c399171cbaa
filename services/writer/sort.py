"""SORT: to which tables an event goes, or why a destination of its is none.

A packet says so itself, as far as its topic's grants go; an envelope goes where its event
name is routed, else to that name's landing table.  Runs are sorted as columns: the values
are read hundreds at a time, and each table's rows are made a whole column at once.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
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
        return len({u.offset for u in self.unroutable} - self._routed()) if self.unroutable else 0

    def events(self) -> int:
        """How many events are in either of the two."""
        if len(self.tables) == 1 and not self.unroutable:
            return sum(rows.num_rows for rows in self.tables.values())
        return len(self._routed() | {u.offset for u in self.unroutable})

    def _routed(self) -> set[int]:
        return {o for rows in self.tables.values() for o in rows.column("_offset").to_pylist()}


class _Sorting:
    """One run on its way: where each record goes, by its place in the run."""

    def __init__(self, run: Run, routes: Routes) -> None:
        self._run = run
        self._routes = routes
        self._by_event = {r.event_name: _routed(r.event_name, routes) for r in routes.event_routes}
        self._by_context: dict[bytes, Destinations] = {}
        self._places: dict[Target, list[int]] = defaultdict(list)
        self.unroutable: list[Unroutable] = []

    def take(self, records: Sequence[Record | UserError]) -> None:
        """Note where each of the run's records goes."""
        by_name: dict[str, list[int]] = defaultdict(list)
        for at, record in enumerate(records):
            if isinstance(record, UserError):
                self._refuse(at, "", record)
            elif record.pipeline_context is None:
                by_name[record.event_name].append(at)
            else:
                self._address(at, bytes(record.pipeline_context))
        for name, places in by_name.items():
            for target in self._by_event.get(name) or self._landing_of(name):
                self._places[target] += places

    def places(self) -> dict[Target, list[int]]:
        """The places of each table's records, in the run's order."""
        return {target: sorted(places) for target, places in self._places.items()}

    def _address(self, at: int, context: bytes) -> None:
        """Note where a packet with this `pipeline_context` says that it goes."""
        if context not in self._by_context:
            self._by_context[context] = destinations(context, self._run.partition.topic, self._routes)
        found = self._by_context[context]
        for target in found.targets:
            self._places[target].append(at)
        for pointer, error in found.refused:
            self._refuse(at, pointer, error)

    def _landing_of(self, name: str) -> tuple[Target, ...]:
        return (Target(self._routes.default_database, landing.SCHEMA, name),)

    def _refuse(self, at: int, destination: str, error: UserError) -> None:
        rows = self._run.rows
        value = rows.column("value")[at].as_py()
        self.unroutable.append(Unroutable(rows.column("offset")[at].as_py(), value, error, destination))


def sort(runs: Sequence[Run], routes: Routes) -> Iterator[Sorted]:
    """Sort the records of each of `runs` by their destinations, as `routes` say.

    The values of all are read together: of a hundred partitions each may have a few.
    """
    values = [value for run in runs for value in run.rows.column("value").to_pylist()]
    records, at = read(values), 0
    for run in runs:
        yield _sort(run, records[at : at + len(run)], routes)
        at += len(run)


def _sort(run: Run, records: Sequence[Record | UserError], routes: Routes) -> Sorted:
    sorting = _Sorting(run, routes)
    sorting.take(records)
    out = Sorted(unroutable=sorting.unroutable)
    for target, places in sorting.places().items():
        whole = len(places) == len(records)
        arrivals = run.rows if whole else run.rows.take(places)
        mine = records if whole else [records[at] for at in places]
        out.tables[target] = landing.rows(run.partition, arrivals, mine)  # type: ignore[arg-type]
    assert out.events() == len(records)  # noqa: S101 - none got lost
    return out


def _routed(name: str, routes: Routes) -> tuple[Target, ...]:
    """The tables that events of `name` are routed to, each once."""
    found = [
        routes.typed(r.database, r.schema, r.table) if r.table else Target(r.database, landing.SCHEMA, name)
        for r in routes.event_routes
        if r.event_name == name
    ]
    return tuple(dict.fromkeys(found))
