"""`onramp databases`: halted databases with reasons, resolving a halt, and retiring a database."""

import asyncio
import json
from enum import StrEnum
from typing import Annotated

import typer

from services.cli.connection_options import Where, with_database_options, with_where_options
from services.cli.exits import Exit, complain, exits_when_unavailable, finish
from services.cli.options import JsonOption, WriterOption
from services.cli.show.tables import print_table

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


class How(StrEnum):
    """The writer's action."""

    recheck = "recheck"
    refill = "refill"
    skip = "skip"


ReasonOption = Annotated[str, typer.Option(help="Reason, stored with each parked event.")]
NameArgument = Annotated[str, typer.Argument(help="The database's public name.")]


def _how(word: str) -> How:
    try:
        return How(word)
    except ValueError:
        raise typer.BadParameter(f"{word!r} is not one of {', '.join(How)}") from None


HowArgument = Annotated[
    How,
    typer.Argument(
        parser=_how,
        metavar="|".join(How),
        help="recheck: the right data are back; refill: land the missing events again, from Kafka; "
        "skip: continue without them.",
    ),
]


@app.callback()
def databases() -> None:
    """See which databases are halted, resolve a halt, and retire a database that is gone.

    A database is halted when its ledger is behind the offsets that the writer has settled there:
    a dump was restored, or rows of the ledger were changed. Its events wait until an
    operator decides. Examples:

    onramp databases list

    onramp databases resolve onramp refill

    onramp databases retire warehouse --reason "moved to the lake"
    """


@app.command(name="list")
@with_database_options
def list_(where: Where, *, as_json: JsonOption = False) -> None:
    """Print every database, and the reason of each halt.

    Exits with 0 when none is halted, 1 when one is, 3 when one cannot be reached. Example:

    onramp databases list --json
    """
    where.require_database()
    states = [state for name, dsn in where.databases.items() if (state := _state(name, dsn))]
    if as_json:
        print(json.dumps(states))
    else:
        keys = ("database", "state", "since", "resolution", "reason")
        print_table([key.upper() for key in keys], ([state.get(key) for key in keys] for state in states))
    if len(states) < len(where.databases):
        raise typer.Exit(Exit.UNAVAILABLE)
    raise typer.Exit(Exit.FAILED if any(each["state"] == "halted" for each in states) else Exit.OK)


@app.command()
@with_database_options
def resolve(where: Where, name: NameArgument, how: HowArgument, *, as_json: JsonOption = False) -> None:
    """Send the running writer a decision about a halt, which it applies within seconds.

    Exits with 1 when the database is not halted. Skipped events are lost in that database, and
    the audit reports them. Examples:

    onramp databases resolve onramp recheck

    onramp databases resolve onramp refill
    """
    from services.ops.operate import halts_sql

    if name not in where.databases:
        known = ", ".join(where.databases) or "none, give --dsn"
        raise typer.BadParameter(f"no such database; known: {known}", param_hint="name")
    with exits_when_unavailable():
        halted = halts_sql.resolve(name, where.databases[name], how)
    finish(
        {"database": name, "resolution": how if halted else None},
        worked=halted,
        as_json=as_json,
        done=f"Decision stored: {how}. `onramp databases list` says when {name} is not halted any more.",
        problem=f"{name} is not halted; `onramp databases list` shows the halted ones",
    )


@app.command()
@with_where_options
def retire(
    where: Where,
    name: NameArgument,
    *,
    reason: ReasonOption,
    writer: WriterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Retire a database that is no longer configured: the running writer parks its waiting events.

    The writer does so within a minute. The events are parked with the code database_retired, and can be
    downloaded, sent again, or discarded. A configured database is refused with exit code 1: remove it from
    the writer's settings first. If a database of that name is configured later, it begins with the events of
    that time. With its old ledger it is halted: resolve it with skip. Example:

    onramp databases retire warehouse --reason "moved to the lake"
    """
    from services.ops.operate import kafka_retire as words

    with exits_when_unavailable():
        configured = [*where.databases, *_configured(writer or where.writer)]
        if name in configured:
            problem = (
                f"{name} is configured: take it out of the writer's settings and restart the writer first"
            )
        elif not (found := asyncio.run(words.known(where.brokers, name))).has_past:
            problem = f"{name} {'is retired already' if found.is_retired else 'was never known here'}"
        else:
            asyncio.run(words.retire(where.brokers, name, reason))
            problem = ""
    finish(
        {"database": name, "retired": not problem},
        worked=not problem,
        as_json=as_json,
        done=f"Decision stored. `onramp errors waiting` names {name} until all of it is parked.",
        problem=problem,
    )


def _configured(url: str) -> list[str]:
    """Return the databases of the running writer; print an error and return none if it does not answer."""
    from shared.figures import STATE_NOT_CONFIGURED, WriterFigures
    from shared.service_pages import PageError, read_figures

    if not url:
        return []
    try:
        databases = read_figures(url, WriterFigures).databases
        return [name for name, each in databases.items() if each.state != STATE_NOT_CONFIGURED]
    except PageError as error:
        complain(f"{error} Whether the database is configured is for the writer to see, when it runs")
        return []


def _state(name: str, dsn: str) -> dict[str, str] | None:
    """Return the state of a database; print an error and return None if it cannot be reached."""
    from services.ops.operate.halts_sql import halt_of
    from shared.errors import InfrastructureError

    try:
        halt = halt_of(name, dsn)
    except InfrastructureError as error:
        complain(error.detail)
        return None
    if halt is None:
        return {"database": name, "state": "not halted"}
    since = halt.since.isoformat(timespec="seconds")
    state = {"database": name, "state": "halted", "reason": halt.reason, "since": since}
    return state | ({"resolution": halt.resolution} if halt.resolution else {})
