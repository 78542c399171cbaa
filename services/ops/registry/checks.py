"""The destinations of event types, and checks of their tables in the databases."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from services.ops.operate import create_sql
from services.ops.operate.destinations_sql import Fact, Wanted, facts
from services.ops.operate.holds_sql import connected
from services.ops.registry.database_addresses import Places
from shared.contracts.tables import columns_of, quoted
from shared.errors import InfrastructureError
from shared.registry import Destination, EventType, Snapshot


class Place(NamedTuple):
    """A destination of an event type, with its database."""

    event_type: str
    database: str
    schema: str
    table: str
    unkeyed: bool

    def __str__(self) -> str:
        return f"{self.event_type} → {self.database}.{self.schema}.{self.table}"


def tables_of(places: Places, snapshot: Snapshot) -> Iterator[tuple[Place, EventType, Destination]]:
    """Yield the tables that event types name; landing tables are the writer's own."""
    for name, event_type in sorted(snapshot.event_types.items()):
        for destination in event_type.database_destinations:
            if destination.table:
                yield _place(places, name, destination), event_type, destination


def facts_of(places: Places, place: Place, event_type: EventType) -> list[Fact]:
    """Return the facts that must hold for events to land there. Raises `InfrastructureError`."""
    wanted = _wanted(places, place, event_type)
    if isinstance(wanted, Fact):
        return [wanted]
    with connected(place.database, places.databases[place.database]) as conn:
        return facts(conn, wanted)


def facts_of_tables(
    places: Places, tables: Iterable[tuple[Place, EventType]]
) -> Iterator[tuple[Place, list[Fact]]]:
    """Yield the facts of each table, by database, with one connection to each of them.

    A database that does not answer is a fact that does not hold.
    """
    by_database: dict[str, list[tuple[Place, Wanted]]] = {}
    for place, event_type in tables:
        wanted = _wanted(places, place, event_type)
        if isinstance(wanted, Fact):
            yield place, [wanted]
        else:
            by_database.setdefault(place.database, []).append((place, wanted))
    for database, of_one in by_database.items():
        found: list[list[Fact]] = []
        try:
            with connected(database, places.databases[database]) as conn:
                for _, wanted in of_one:
                    found.append(facts(conn, wanted))
        except InfrastructureError as error:
            found += [[unanswered(error)]] * (len(of_one) - len(found))
        yield from zip((place for place, _ in of_one), found, strict=True)


def unanswered(error: InfrastructureError) -> Fact:
    """Return the fact about a database that does not answer."""
    return Fact(False, f"the database answers: {error.detail}")


def _wanted(places: Places, place: Place, event_type: EventType) -> Wanted | Fact:
    """Return the table and its fields, or the fact that prevents further checks."""
    if place.database not in places.databases:
        known = ", ".join(places.databases)
        return Fact(False, f"the database {place.database} is known; known are {known}")
    try:
        quoted(place.schema), quoted(place.table)
        columns = columns_of(event_type.json_schema or {})
    except ValueError as error:
        return Fact(False, f"names that a table can have: {error}")
    return Wanted(
        schema=place.schema,
        table=place.table,
        open_schemas=places.open_schemas(place.database),
        columns=columns,
        discards=event_type.contract.unknown_fields == "discard",
        unkeyed=place.unkeyed,
    )


def preflight(places: Places, name: str, event_type: EventType) -> list[tuple[Place, Fact]]:
    """Return the facts of an event type's tables, also of those that the change would create.

    An unreachable database is a fact that does not hold.
    """
    found = []
    for place, _, destination in tables_of(places, Snapshot(event_types={name: event_type})):
        try:
            is_created = destination.create and place.database in places.databases
            facts = (
                _creation(places, place, event_type) if is_created else facts_of(places, place, event_type)
            )
        except InfrastructureError as error:
            facts = [unanswered(error)]
        found += [(place, fact) for fact in facts]
    return found


def _creation(places: Places, place: Place, event_type: EventType) -> list[Fact]:
    try:
        columns = columns_of(event_type.json_schema or {})
        quoted(place.schema), quoted(place.table)
    except ValueError as error:
        return [Fact(False, f"names that a table can have: {error}")]
    schemas = places.open_schemas(place.database)
    wanted = Wanted(schema=place.schema, table=place.table, open_schemas=schemas, columns=columns)
    dsn = places.owners.get(place.database, places.databases[place.database])
    return create_sql.creation_facts(create_sql.Owner(place.database, dsn), wanted)


def _place(places: Places, name: str, destination: Destination) -> Place:
    database = destination.vanity or destination.database or next(iter(places.databases), "(default)")
    return Place(name, database, destination.db_schema or "", destination.table or "", destination.unkeyed)
