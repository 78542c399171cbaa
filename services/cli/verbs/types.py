"""`onramp types`: event types that are paused, tables that are blocked, and resuming a type."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from services.cli.exits import Exit, exits_when_unavailable, finish
from services.cli.options import JsonOption
from services.cli.where import Where, with_database_options

if TYPE_CHECKING:
    from services.admin.operate.holds_sql import Held

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

EventArgument = Annotated[str, typer.Argument(help="The event type, as `onramp types list` prints it.")]


@app.callback()
def types() -> None:
    """See which event types are paused, and resume them.

    An event type of which too many events are parked pauses: its events wait in the database
    until an operator has fixed the cause and resumes it. Examples:

    onramp types list

    onramp types resume order_placed
    """


@app.command(name="list")
@with_database_options
def list_(where: Where, *, as_json: JsonOption = False) -> None:
    """Print what events wait for in their own database: paused types and blocked tables.

    Exits with 0 when nothing is paused, 1 when something is, 3 when a database cannot be
    reached. Example:

    onramp types list --json
    """
    from services.admin.operate import holds_sql

    where.require_database()
    with exits_when_unavailable():
        holds = [hold for name, dsn in where.databases.items() for hold in holds_sql.holds(name, dsn)]
    if as_json:
        print(json.dumps([hold._asdict() | {"since": hold.since.isoformat()} for hold in holds]))
    else:
        print("\n".join(map(_line, holds)) or "No event type is paused and no table is blocked.")
    raise typer.Exit(Exit.FAILED if any(hold.state == "paused" for hold in holds) else Exit.OK)


@app.command()
@with_database_options
def resume(where: Where, event: EventArgument, *, as_json: JsonOption = False) -> None:
    """Let the events of a paused type land: those that wait first, in order, then the new ones.

    What is still at fault among them is parked, event by event. Exits with 1 when the type is
    paused in none of the databases. Example:

    onramp types resume order_placed
    """
    from services.admin.operate import holds_sql

    where.require_database()
    with exits_when_unavailable():
        resumed = [name for name, dsn in where.databases.items() if holds_sql.resume(name, dsn, event)]
    finish(
        {"event": event, "resumed": resumed},
        worked=bool(resumed),
        as_json=as_json,
        done=f"{event} goes on in {', '.join(resumed)}.",
        problem=f"{event} is paused nowhere; `onramp types list` says what is",
    )


def _line(hold: "Held") -> str:
    sqlstate = f" (SQLSTATE {hold.sqlstate})" if hold.sqlstate else ""
    since = hold.since.isoformat(timespec="seconds")
    return (
        f"{hold.database}: {hold.kind} {hold.name} is {hold.state}{sqlstate} since {since}, "
        f"{hold.waiting:,} waiting"
    )
