"""What the registry says of destinations, as the snapshot of routes that a batch is sorted by."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from services.writer.postgres import Database
from services.writer.routes import Contract, EventRoute, Place, Routes
from shared import wire
from shared.registry.model import Destination, EventType, Snapshot


def routes_of(snapshot: Snapshot, databases: Sequence[Database]) -> Routes:
    """The routes of `snapshot`; the first of `databases` is the default one."""
    default = databases[0].name
    routed = [
        (name, known, destination)
        for name, known in sorted(snapshot.event_types.items())
        for destination in known.destinations
    ]
    return Routes(
        default,
        places=tuple(Place(d.name, d.dbname) for d in databases),
        event_routes=tuple(_route(name, destination, default) for name, _, destination in routed),
        contracts=tuple(_contracts(routed, default)),
    )


def topics_of(snapshot: Snapshot) -> set[str]:
    """Topics that event types name for themselves: the writer reads them beside its pattern."""
    return {known.topic or wire.topic_of(name) for name, known in snapshot.event_types.items()}


def only_known(databases: Sequence[Database]) -> Callable[[Snapshot], None]:
    """The writer's demand on a registry: destinations of type postgres in configured databases."""
    names = {d.name for d in databases}

    def check(snapshot: Snapshot) -> None:
        for name, known in snapshot.event_types.items():
            for at, destination in enumerate(known.destinations):
                place = f"event_types.{name}.destinations.{at}"
                if destination.type != "postgres":
                    raise ValueError(f"{place}: type {destination.type!r} is not supported, postgres is")
                if _database(destination, databases[0].name) not in names:
                    raise ValueError(f"{place}: no such database; configured are {', '.join(sorted(names))}")

    return check


def _database(destination: Destination, default: str) -> str:
    return destination.vanity or destination.database or default


def _route(name: str, destination: Destination, default: str) -> EventRoute:
    return EventRoute(
        name, _database(destination, default), destination.db_schema or "", destination.table or ""
    )


def _contracts(routed: Iterable[tuple[str, EventType, Destination]], default: str) -> Iterator[Contract]:
    for _, known, destination in routed:
        if known.contract.get("unknown_fields") == "discard" and destination.table:
            database = _database(destination, default)
            yield Contract("discard", database, destination.db_schema or "*", destination.table)
