"""`onramp destinations`: whether events can land where the registry says, before the first one comes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from services.cli.exits import Exit, complain, exits_when_unavailable
from services.cli.options import JsonOption
from services.cli.where import Where, with_database_options

if TYPE_CHECKING:
    from services.admin.operate.destinations_sql import Fact
    from shared.registry import Destination, EventType, Snapshot

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

FileOption = Annotated[Path, typer.Option("--file", help="The registry's file.")]


class _Place(NamedTuple):
    """A destination of an event type, with the database that it means."""

    event_type: str
    database: str
    schema: str
    table: str
    unkeyed: bool

    def __str__(self) -> str:
        return f"{self.event_type} → {self.database}.{self.schema}.{self.table}"


@app.callback()
def destinations() -> None:
    """See whether events can land in the tables that the registry's file names.

    Example:
    onramp destinations check
    """


@app.command()
@with_database_options
def check(where: Where, *, file: FileOption = Path("onramp.yaml"), as_json: JsonOption = False) -> None:
    """Print a line for each fact that must hold, and the SQL that mends what does not; nothing is changed.

    Ask with the writer's own DSN: its rights are what counts. Facts are the open schema, USAGE, the
    table, its columns and their types, INSERT, and a usable key with SELECT on it. Landing tables are
    made by the writer and not looked at. Exits with 1 when a fact does not hold, 3 when a database cannot be
    reached. Example:

    onramp destinations check --file onramp.yaml
    """
    where.require_database()
    with exits_when_unavailable():
        found = [(place, fact) for place, fact in _facts(where, _registry(file))]
    if as_json:
        print(json.dumps([place._asdict() | fact._asdict() for place, fact in found]))
    else:
        _print(found)
    raise typer.Exit(Exit.OK if all(fact.holds for _, fact in found) else Exit.FAILED)


@app.command("list")
@with_database_options
def list_(where: Where, *, file: FileOption = Path("onramp.yaml"), as_json: JsonOption = False) -> None:
    """Print the tables that the file names, and which of them are made by apply or have no key.

    Example:
    onramp destinations list --file onramp.yaml
    """
    found = [
        (_place(where, name, each), each)
        for name, event_type in sorted(_registry(file).event_types.items())
        for each in event_type.destinations
        if each.table
    ]
    if as_json:
        print(json.dumps([place._asdict() | {"create": each.create} for place, each in found]))
        return
    for place, each in found:
        marks = [
            mark
            for mark, is_so in (
                ("made by apply", each.create),
                ("unkeyed: a repeat is one more row", each.unkeyed),
            )
            if is_so
        ]
        print(f"{place}{'  (' + ', '.join(marks) + ')' if marks else ''}")


def _registry(file: Path) -> "Snapshot":
    from shared.registry.file import RegistryFileError, load

    try:
        return load(file)
    except RegistryFileError as error:
        complain(str(error))
        raise typer.Exit(Exit.FAILED) from None


def _facts(where: Where, snapshot: "Snapshot") -> Iterator[tuple[_Place, "Fact"]]:
    for name, event_type in sorted(snapshot.event_types.items()):
        for destination in event_type.destinations:
            if destination.table:
                place = _place(where, name, destination)
                for fact in _facts_of(where, place, event_type):
                    yield place, fact


def _place(where: Where, name: str, destination: "Destination") -> _Place:
    database = destination.vanity or destination.database or next(iter(where.databases), "(default)")
    return _Place(name, database, destination.db_schema or "", destination.table or "", destination.unkeyed)


def _facts_of(where: Where, place: _Place, event_type: "EventType") -> list["Fact"]:
    from services.admin.operate.destinations_sql import Fact, Wanted, facts
    from services.admin.operate.holds_sql import connected
    from shared.contracts.tables import columns_of, quoted

    if place.database not in where.databases:
        return [
            Fact(False, f"the database {place.database} is known; known are {', '.join(where.databases)}")
        ]
    try:
        quoted(place.schema), quoted(place.table)
        columns = columns_of(event_type.json_schema or {})
    except ValueError as error:
        return [Fact(False, f"names that a table can have: {error}")]
    wanted = Wanted(
        schema=place.schema,
        table=place.table,
        open_schemas=where.open_schemas(place.database),
        columns=columns,
        discards=event_type.contract.unknown_fields == "discard",
        unkeyed=place.unkeyed,
    )
    with connected(place.database, where.databases[place.database]) as conn:
        return facts(conn, wanted)


def _print(found: list[tuple[_Place, "Fact"]]) -> None:
    last = None
    for place, fact in found:
        if place != last:
            print(place)
        print(f"  {'ok   ' if fact.holds else 'WRONG'}  {fact.text}")
        if fact.sql and not fact.holds:
            print("".join(f"         {line}\n" for line in fact.sql.splitlines()), end="")
        last = place
    if not found:
        print("No event type names a table of its own: each lands where the writer makes a table for it.")
