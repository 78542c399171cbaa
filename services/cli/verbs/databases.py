"""`onramp databases`: which are halted and why, and resolving a halt."""

import json
from enum import StrEnum
from typing import Annotated

import typer

from services.cli.exits import Exit, complain, exits_when_unavailable, finish
from services.cli.options import JsonOption
from services.cli.where import Where, with_database_options

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


class How(StrEnum):
    """What the writer is to do."""

    recheck = "recheck"
    refill = "refill"
    skip = "skip"


NameArgument = Annotated[str, typer.Argument(help="The database's public name.")]


def _how(word: str) -> How:
    if word == "replay":
        raise typer.BadParameter(
            "to land what a halted database misses is called refill now; what is replayed is parked events"
        )
    try:
        return How(word)
    except ValueError:
        raise typer.BadParameter(f"{word!r} is none of {', '.join(How)}") from None


HowArgument = Annotated[
    How,
    typer.Argument(
        parser=_how,
        metavar="|".join(How),
        help="recheck: the right data are back; refill: land what is missing again, from Kafka; "
        "skip: do without it.",
    ),
]


@app.callback()
def databases() -> None:
    """See which databases are halted, and resolve a halt.

    A database is halted when its ledger is behind what the writer knows to be settled there:
    a dump was restored, or rows of the ledger were changed. Its events wait until an
    operator decides what is right. Examples:

    onramp databases list

    onramp databases resolve onramp refill
    """


@app.command(name="list")
@with_database_options
def list_(where: Where, *, as_json: JsonOption = False) -> None:
    """Print every database and, of one that is halted, why.

    Exits with 0 when none is halted, 1 when one is, 3 when one cannot be reached. Example:

    onramp databases list --json
    """
    where.require_database()
    states = [state for name, dsn in where.databases.items() if (state := _state(name, dsn))]
    for text in [json.dumps(states)] if as_json else map(_line, states):
        print(text)
    if len(states) < len(where.databases):
        raise typer.Exit(Exit.UNAVAILABLE)
    raise typer.Exit(Exit.FAILED if any(each["state"] == "halted" for each in states) else Exit.OK)


@app.command()
@with_database_options
def resolve(where: Where, name: NameArgument, how: HowArgument, *, as_json: JsonOption = False) -> None:
    """Tell the running writer how to resolve a halt; it does so within seconds.

    Exits with 1 when the database is not halted. What is skipped is lost in that database, and
    the audit will say so. Examples:

    onramp databases resolve onramp recheck

    onramp databases resolve onramp refill
    """
    from services.admin.operate import halts_sql

    if name not in where.databases:
        known = ", ".join(where.databases) or "none, give --dsn"
        raise typer.BadParameter(f"no such database; known are: {known}", param_hint="name")
    with exits_when_unavailable():
        halted = halts_sql.resolve(name, where.databases[name], how)
    finish(
        {"database": name, "resolution": how if halted else None},
        worked=halted,
        as_json=as_json,
        done=f"The writer is told: {how}. `onramp databases list` says when {name} is not halted any more.",
        problem=f"{name} is not halted, so there is nothing to resolve; `onramp databases list` says what is",
    )


def _state(name: str, dsn: str) -> dict[str, str] | None:
    """Return the state of a database; None when it cannot be reached, which is printed."""
    from services.admin.operate.halts_sql import halt_of
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


def _line(state: dict[str, str]) -> str:
    details = [f"; {key}: {state[key]}" for key in ("since", "reason", "resolution") if key in state]
    return f"{state['database']}: {state['state']}{''.join(details)}"
