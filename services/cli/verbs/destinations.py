"""`onramp destinations`: whether events can land in the registry's tables, before the first one arrives."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from services.cli.connection_options import Where, with_database_options
from services.cli.exits import Exit, complain
from services.cli.options import JsonOption
from services.cli.show.tables import print_table

if TYPE_CHECKING:
    from services.ops.operate.destinations_sql import Fact
    from services.ops.registry.checks import Place
    from shared.registry import Snapshot

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

FileOption = Annotated[Path, typer.Option("--file", help="The registry's file.")]


@app.callback()
def destinations() -> None:
    """See whether events can land in the tables that the registry's file names.

    Example:
    onramp destinations check
    """


@app.command()
@with_database_options
def check(where: Where, *, file: FileOption = Path("onramp.yaml"), as_json: JsonOption = False) -> None:
    """Print the conditions of each table, and SQL that corrects those that fail; nothing is changed.

    Use the writer's own DSN, whose rights are checked. Conditions are the open schema, USAGE, the
    table, its columns and their types, INSERT, a usable key, and SELECT on the columns that events fill.
    Landing tables are created by the writer and not checked. The check waits 2 seconds for a database.
    Exits with 1 when a condition does not hold, 3 if a database is unreachable. Example:

    onramp destinations check --file onramp.yaml
    """
    from services.ops.registry.checks import facts_of, tables_of
    from shared.errors import InfrastructureError

    where.require_database()
    found: list[tuple[Place, Fact]] = []
    unreached: list[str] = []
    for place, event_type, _ in tables_of(where, _registry(file)):
        try:
            found += [(place, fact) for fact in facts_of(where, place, event_type)]
        except InfrastructureError as error:
            unreached.append(f"{place}: {error.detail}")
    if as_json:
        print(json.dumps([place._asdict() | fact._asdict() for place, fact in found]))
    else:
        _print(found, is_partial=bool(unreached))
    for problem in unreached:
        complain(problem)
    if unreached:
        raise typer.Exit(Exit.UNAVAILABLE)
    raise typer.Exit(Exit.OK if all(fact.holds for _, fact in found) else Exit.FAILED)


@app.command("list")
@with_database_options
def list_(where: Where, *, file: FileOption = Path("onramp.yaml"), as_json: JsonOption = False) -> None:
    """Print the tables of the file, whether apply creates them, and whether they have a key.

    Example:
    onramp destinations list --file onramp.yaml
    """
    from services.ops.registry.checks import tables_of

    found = [(place, each) for place, _, each in tables_of(where, _registry(file))]
    if as_json:
        print(json.dumps([place._asdict() | {"create": each.create} for place, each in found]))
        return
    words = {True: "yes", False: "no"}
    rows = [(place, words[each.create], words[not each.unkeyed]) for place, each in found]
    print_table(("DESTINATION", "CREATED BY APPLY", "KEY"), rows)


def _registry(file: Path) -> "Snapshot":
    from shared.registry.file import RegistryFileError, load

    try:
        return load(file)
    except RegistryFileError as error:
        complain(str(error))
        raise typer.Exit(Exit.FAILED) from None


def _print(found: "list[tuple[Place, Fact]]", *, is_partial: bool) -> None:
    rows = [(place, "ok" if fact.holds else "WRONG", fact.text) for place, fact in found]
    print_table(("DESTINATION", "RESULT", "CONDITION"), rows)
    for place, fact in found:
        if fact.sql and not fact.holds:
            print(f"\n-- {place}: {fact.text}\n{fact.sql}")
    if not found and not is_partial:
        print("No event type names a table of its own: each lands where the writer makes a table for it.")
