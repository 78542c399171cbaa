"""`onramp sources`: databases whose changes become tables: how they are, and what prepares and heals them."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from services.cli.exits import Exit, complain, exits_when_unavailable, finish
from services.cli.options import DATA_DIR, DataDirOption, JsonOption, KafkaOption
from services.cli.where import Where, with_database_options, with_where_options

if TYPE_CHECKING:
    from services.admin.registry.change import Result
    from shared.registry import Snapshot
    from shared.registry.sources import Source

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

NameArgument = Annotated[str, typer.Argument(help="The source's name in the registry.")]
FileOption = Annotated[
    Path | None,
    typer.Option("--file", help="The registry's file; without it the registry in Kafka.", show_default=False),
]
EnvOption = Annotated[
    str, typer.Option("--dsn-env", help="The environment variable that has its DSN: ONRAMP_SOURCE_…")
]
SchemaOption = Annotated[list[str], typer.Option("--schema", help="A schema whose tables are captured.")]
ExcludeOption = Annotated[
    list[str] | None, typer.Option("--exclude", help="A pattern of schema.table that stays out.")
]
PublishOption = Annotated[str, typer.Option("--publish", help="The schema that its tables appear in.")]
ReasonOption = Annotated[str, typer.Option("--reason", help="Why: it is kept with the change.")]
RowsOption = Annotated[
    bool, typer.Option("--rows", help="Read every row as well, for values that would come out wrong.")
]


@app.callback()
def sources() -> None:
    """See and change which databases are captured, and whether they are in sync.

    Example:
    onramp sources list
    """


@app.command("list")
@with_where_options
def list_(where: Where, *, as_json: JsonOption = False) -> None:
    """Print each source as the agent reported it last: its state, its WAL, and its suspended tables.

    Each state that is not `flowing` and each suspended table comes with its reason and what to do. Exits
    with 1 when there is one, or when the agent's last report is older than 60 s; with 3 when a database, or
    the registry while no source has been reported, cannot be read. Example:

    onramp sources list
    """
    from services.cli.registry.source_reports import exit_of, read
    from services.cli.show.source_list import lines_of

    found, is_whole = read(where)
    if as_json:
        print(json.dumps(found, default=str))
    else:
        print("".join(f"{line}\n" for row in found for line in lines_of(row)), end="")
    raise typer.Exit(exit_of(where, found) if is_whole else Exit.UNAVAILABLE)


@app.command("sql")
def sql(
    name: NameArgument,
    *,
    file: FileOption = None,
    kafka: KafkaOption = None,
    data_dir: DataDirOption = DATA_DIR,
) -> None:
    """Print what a DBA runs at the source before it can be captured; nothing is run.

    A role that may replicate and read, and a publication of the listed schemas, never of all tables: a
    warehouse that is a source too would feed itself. Example:

    onramp sources sql shop
    """
    from services.elt.setup.check_sql import role_of
    from services.elt.setup.prepare import statements

    source = _source(name, _registry(file, kafka, data_dir))
    print(statements(name, source, role_of(os.environ.get(source.dsn_env, ""))))


@app.command()
def check(
    name: NameArgument,
    *,
    rows: RowsOption = False,
    file: FileOption = None,
    kafka: KafkaOption = None,
    data_dir: DataDirOption = DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Print whether a source can be captured, table by table, and what fixes what does not hold.

    Ask with the source's DSN in its `dsn_env`: that role's rights are what counts. Exits with 1 when
    something is wrong, 3 when the source cannot be reached. Example:

    onramp sources check shop --rows
    """
    from services.elt.setup.check_sql import facts

    source = _source(name, _registry(file, kafka, data_dir))
    dsn = os.environ.get(source.dsn_env)
    if not dsn:
        complain(f"{source.dsn_env} is not set: give the source's DSN in it")
        raise typer.Exit(Exit.UNAVAILABLE)
    with _says_why():
        found = list(facts(name, source, dsn, rows=rows))
    if as_json:
        print(json.dumps([fact._asdict() for fact in found]))
    else:
        print("".join(f"{f.level:<6} {f.what}\n" + f"       {f.fix}\n" * bool(f.fix) for f in found), end="")
    raise typer.Exit(Exit.FAILED if any(fact.level == "wrong" for fact in found) else Exit.OK)


@app.command()
def add(
    name: NameArgument,
    *,
    dsn_env: EnvOption,
    schema: SchemaOption,
    publish: PublishOption,
    exclude: ExcludeOption = None,
    reason: ReasonOption = "",
    kafka: KafkaOption = None,
    data_dir: DataDirOption = DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Add a source to the registry in Kafka; the agent captures it from then on.

    Or write it in onramp.yaml, for `onramp apply` (docs/sources.md). Exits with 1 when there is one of
    that name, or it is refused. Example:

    onramp sources add shop --dsn-env ONRAMP_SOURCE_SHOP --schema app --publish shop
    """
    wanted = {"dsn_env": dsn_env, "schemas": schema, "publish": publish, "exclude": exclude or []}

    def added(there: dict[str, Any]) -> dict[str, Any]:
        if name in there:
            raise ValueError(f"there is a source {name}: change it by onramp apply, or remove it first")
        return {**there, name: wanted}

    _finish(_changed(added, reason, kafka, data_dir), as_json=as_json, done=f"added: {name}")


@app.command()
def remove(
    name: NameArgument,
    *,
    reason: ReasonOption = "",
    kafka: KafkaOption = None,
    data_dir: DataDirOption = DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Remove a source from the registry in Kafka: the agent drops its slot, connector and offsets.

    What was published stays. `onramp sources list` shows it until the agent has done so. Exits with 1 when
    there is none of that name. Example:

    onramp sources remove shop --reason "it has moved"
    """

    def removed(there: dict[str, Any]) -> dict[str, Any]:
        if name not in there:
            raise ValueError(f"there is no source {name}")
        return {each: value for each, value in there.items() if each != name}

    done = f"removed: {name}; the agent drops its slot and its offsets"
    _finish(_changed(removed, reason, kafka, data_dir), as_json=as_json, done=done)


@app.command()
@with_database_options
def resync(where: Where, name: NameArgument, *, as_json: JsonOption = False) -> None:
    """Have everything of a source read again: what it lacks comes, and rows deleted meanwhile go.

    The agent does it within seconds; its tables are as before until their snapshot comes. Exits with 1
    when no such source is published, 3 when a database cannot be reached. Example:

    onramp sources resync shop
    """
    from services.elt.setup.asked_sql import ask_for_resync

    where.require_database()
    with _says_why():
        asked = [database for database, dsn in where.databases.items() if ask_for_resync(dsn, name)]
    finish(
        {"source": name, "databases": asked},
        worked=bool(asked),
        as_json=as_json,
        done=f"{name} is read again; `onramp sources list` shows how far it is",
        problem=f"no source {name} is published to {', '.join(where.databases)}: has the agent seen it?",
    )


def _source(name: str, snapshot: "Snapshot") -> "Source":
    if name not in snapshot.sources:
        known = ", ".join(sorted(snapshot.sources)) or "none"
        complain(f"there is no source {name} in the registry; known: {known}")
        raise typer.Exit(Exit.FAILED)
    return snapshot.sources[name]


def _registry(file: Path | None, kafka: str | None, data_dir: Path) -> "Snapshot":
    from services.admin.registry.change import editing
    from services.cli.where import kafka_settings
    from shared.errors import UserError
    from shared.registry.file import RegistryFileError, load

    with exits_when_unavailable():
        try:
            if file is not None:
                return load(file)
            with editing(kafka_settings(kafka, data_dir)) as editor:
                return editor.chain.snapshot()
        except (RegistryFileError, UserError) as error:
            complain(str(error))
            raise typer.Exit(Exit.FAILED) from None


def _changed(change: Any, reason: str, kafka: str | None, data_dir: Path) -> "Result":
    from pydantic import ValidationError

    from services.admin.registry.change import Wish, change_to, editing
    from services.cli.where import kafka_settings
    from shared.errors import UserError
    from shared.registry import Snapshot
    from shared.registry.memory import reasons

    with exits_when_unavailable():
        try:
            with editing(kafka_settings(kafka, data_dir)) as editor:
                there = editor.chain.document().get("sources", {})
                wanted = Snapshot.model_validate({"sources": change(there)})
                return change_to(editor, wanted, Wish(reason=reason))
        except (ValueError, UserError) as error:
            why = reasons(error) if isinstance(error, ValidationError) else [str(error)]
            complain("; ".join(why))
            raise typer.Exit(Exit.FAILED) from None


def _finish(result: "Result", *, as_json: bool, done: str) -> None:
    finish(
        result.as_dict(),
        worked=result.state in ("applied", "unchanged"),
        as_json=as_json,
        done=done,
        problem=f"{result.state}: {result.reason}",
    )


@contextmanager
def _says_why() -> Iterator[None]:
    from services.elt.agent.kept_sql import KeptError
    from services.elt.agent.source_sql import SourceError
    from shared.errors import InfrastructureError

    try:
        yield
    except (KeptError, SourceError, InfrastructureError) as error:
        complain(str(error))
        raise typer.Exit(Exit.UNAVAILABLE) from None
