"""`onramp types`: event types that are paused, tables that are blocked, and resuming a type."""

import json
import sys
from collections.abc import Callable
from typing import Annotated, TypeVar

import typer

from services.cli.exits import Exit
from services.cli.where import JsonOption, Where, looks_into_databases

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
T = TypeVar("T")


@app.callback()
def types() -> None:
    """See which event types are paused, and resume them.

    An event type of which too many events are parked pauses: its events wait in the database
    until a person has mended the cause and resumes it. Examples:

    onramp types list

    onramp types resume order_placed
    """


@app.command(name="list")
@looks_into_databases
def list_(where: Where, *, as_json: JsonOption = False) -> None:
    """Print what events wait for in their own database: paused types and blocked tables.

    Exits with 0 when nothing is paused, 1 when something is, 3 when a database cannot be
    reached. Example:

    onramp types list --json
    """
    from services.admin.operate import holds_sql

    where.must_know_a_database()
    found = [each for name, dsn in where.databases.items() for each in _asked(holds_sql.holds, name, dsn)]
    if as_json:
        print(json.dumps([each._asdict() | {"since": each.since.isoformat()} for each in found]))
    else:
        for each in found:
            state = f" (SQLSTATE {each.sqlstate})" if each.sqlstate else ""
            since = each.since.isoformat(timespec="seconds")
            print(
                f"{each.database}: {each.kind} {each.name} is {each.state}{state} since {since}, "
                f"{each.waiting:,} waiting"
            )
        if not found:
            print("No event type is paused and no table is blocked.")
    raise typer.Exit(Exit.FAILED if any(each.state == "paused" for each in found) else Exit.OK)


@app.command()
@looks_into_databases
def resume(
    where: Where,
    event: Annotated[str, typer.Argument(help="The event type, as `onramp types list` prints it.")],
    *,
    as_json: JsonOption = False,
) -> None:
    """Let the events of a paused type land: those that wait first, in order, then the new ones.

    What is still at fault among them is parked, event by event. Exits with 1 when the type is
    paused in none of the databases. Example:

    onramp types resume order_placed
    """
    from services.admin.operate import holds_sql

    where.must_know_a_database()
    resumed = [
        name
        for name, dsn in where.databases.items()
        if _asked(lambda n, d: holds_sql.resume(n, d, event), name, dsn)
    ]
    if as_json:
        print(json.dumps({"event": event, "resumed": resumed}))
    elif resumed:
        print(f"{event} goes on in {', '.join(resumed)}.")
    else:
        print(f"onramp: {event} is paused nowhere; `onramp types list` says what is", file=sys.stderr)
    raise typer.Exit(Exit.OK if resumed else Exit.FAILED)


def _asked(ask: Callable[[str, str], T], name: str, dsn: str) -> T:
    from shared.errors import InfrastructureError

    try:
        return ask(name, dsn)
    except InfrastructureError as error:
        print(f"onramp: {error.detail}", file=sys.stderr)
        raise typer.Exit(Exit.UNAVAILABLE) from error
