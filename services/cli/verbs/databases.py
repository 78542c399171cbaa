"""`onramp databases`: which are halted and why, and resolving a halt."""

import json
import sys
from enum import StrEnum
from typing import Annotated

import typer

from services.cli.exits import Exit
from services.cli.where import JsonOption, Where, looks_into_databases

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


class How(StrEnum):
    """What the writer is to do."""

    recheck = "recheck"
    replay = "replay"
    skip = "skip"


@app.callback()
def databases() -> None:
    """See which databases are halted, and resolve a halt.

    A database is halted when its ledger is behind what the writer knows to be settled there:
    a dump was restored, or rows of the ledger were changed. Its events wait until a person
    says what is right. Examples:

    onramp databases list

    onramp databases resolve onramp replay
    """


@app.command(name="list")
@looks_into_databases
def list_(where: Where, *, as_json: JsonOption = False) -> None:
    """Print every database and, of one that is halted, why.

    Exits with 0 when none is halted, 1 when one is, 3 when one cannot be reached. Example:

    onramp databases list --json
    """
    from services.admin.operate.halts_sql import halt_of
    from shared.errors import InfrastructureError

    where.must_know_a_database()
    code, found = Exit.OK, []
    for name, dsn in where.databases.items():
        try:
            halt = halt_of(name, dsn)
        except InfrastructureError as error:
            print(f"onramp: {error.detail}", file=sys.stderr)
            code = Exit.UNAVAILABLE
            continue
        found.append(
            {"database": name, "state": "halted" if halt else "not halted"}
            | ({"reason": halt.reason, "since": halt.since.isoformat(timespec="seconds")} if halt else {})
            | ({"resolution": halt.resolution} if halt and halt.resolution else {})
        )
    if as_json:
        print(json.dumps(found))
    else:
        for each in found:
            more = "".join(
                f"; {key}: {each[key]}" for key in ("since", "reason", "resolution") if key in each
            )
            print(f"{each['database']}: {each['state']}{more}")
    halted = any(each["state"] == "halted" for each in found)
    raise typer.Exit(code or (Exit.FAILED if halted else Exit.OK))


@app.command()
@looks_into_databases
def resolve(
    where: Where,
    name: Annotated[str, typer.Argument(help="The database's public name.")],
    how: Annotated[
        How,
        typer.Argument(
            help="recheck: the right data are back; replay: land what is missing again, from Kafka; "
            "skip: do without it."
        ),
    ],
    *,
    as_json: JsonOption = False,
) -> None:
    """Tell the running writer how to resolve a halt; it does so within seconds.

    Exits with 1 when the database is not halted. What is skipped is lost in that database, and
    the audit will say so. Examples:

    onramp databases resolve onramp recheck

    onramp databases resolve onramp replay
    """
    from services.admin.operate import halts_sql
    from shared.errors import InfrastructureError

    if name not in where.databases:
        known = ", ".join(where.databases) or "none, give --dsn"
        raise typer.BadParameter(f"no such database; known are: {known}", param_hint="name")
    try:
        told = halts_sql.resolve(name, where.databases[name], how)
    except InfrastructureError as error:
        print(f"onramp: {error.detail}", file=sys.stderr)
        raise typer.Exit(Exit.UNAVAILABLE) from error
    if as_json:
        print(json.dumps({"database": name, "resolution": how if told else None}))
    elif told:
        print(f"The writer is told: {how}. `onramp databases list` says when {name} is not halted any more.")
    else:
        print(f"onramp: {name} is not halted", file=sys.stderr)
    raise typer.Exit(Exit.OK if told else Exit.FAILED)
