"""`onramp sources`: databases whose changes become tables: their state, setup and repair."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from services.cli.connection_options import Where, with_database_options, with_where_options
from services.cli.exits import Exit, finish
from services.cli.options import DATA_DIR, DataDirOption, JsonOption, KafkaOption
from services.cli.show.tables import print_table
from services.cli.source_entry import Entry, changed, finish_change, says_why

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

NameArgument = Annotated[str, typer.Argument(help="The source's name in the registry.")]
FileOption = Annotated[
    Path | None,
    typer.Option("--file", help="The registry's file; without it the registry in Kafka.", show_default=False),
]
EnvOption = Annotated[
    str,
    typer.Option(
        "--dsn-env",
        help="The environment variable that has its DSN; without it ONRAMP_SOURCE_ and the name in capitals.",
        show_default=False,
    ),
]
SchemaOption = Annotated[list[str], typer.Option("--schema", help="A schema whose tables are captured.")]
UnaddedOption = Annotated[
    list[str] | None,
    typer.Option("--schema", help="For a source that is not in the registry yet: a schema to capture."),
]
ExcludeOption = Annotated[
    list[str] | None, typer.Option("--exclude", help="A pattern of schema.table that is excluded.")
]
PublishOption = Annotated[
    str,
    typer.Option(
        "--publish",
        help="The schema that its tables appear in; without it the source's name.",
        show_default=False,
    ),
]
ReasonOption = Annotated[str, typer.Option("--reason", help="Reason, stored with the change.")]
RowsOption = Annotated[
    bool, typer.Option("--rows", help="Also read every row, to find values that cannot be represented.")
]
NoWaitOption = Annotated[
    bool, typer.Option("--no-wait", help="Return at once; `onramp sources list` shows the state.")
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

    Each state that is not `streaming` and each suspended table comes with its reason and what to do. Exits
    with 1 when there is one, when the agent's last report is older than 60 s, or when the registry names a
    source that no agent has reported; with 3 when nothing can be read. Example:

    onramp sources list
    """
    from services.cli.show.source_list import print_sources
    from services.cli.show.source_reports import exit_of, read

    found, is_whole = read(where)
    if as_json:
        print(json.dumps(found, default=str))
    else:
        print_sources(found)
    raise typer.Exit(exit_of(where, found) if is_whole else Exit.UNAVAILABLE)


@app.command("sql")
def sql(
    name: NameArgument,
    *,
    schema: UnaddedOption = None,
    dsn_env: EnvOption = "",
    file: FileOption = None,
    kafka: KafkaOption = None,
    data_dir: DataDirOption = DATA_DIR,
) -> None:
    """Print the SQL that a DBA runs at the source before capture: required, then optional. Nothing is run.

    Role and password are those of the source's DSN, the password as a SCRAM verifier. With --schema the
    source need not be in the registry. Example:

    onramp sources sql shop --schema app | psql -v ON_ERROR_STOP=1 postgresql://postgres@shop.example/shop
    """
    from services.cdc.setup.prepare import statements

    entry = Entry(name, schema, dsn_env, data_dir=data_dir)
    source = entry.source(file, kafka)
    print(statements(name, source, entry.dsn(source)))


@app.command()
def check(
    name: NameArgument,
    *,
    rows: RowsOption = False,
    schema: UnaddedOption = None,
    dsn_env: EnvOption = "",
    file: FileOption = None,
    kafka: KafkaOption = None,
    data_dir: DataDirOption = DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Print whether a source can be captured, table by table, with a fix for each problem.

    The variable `dsn_env` must have the source's DSN, because the rights of its role are checked. Exits with
    1 when something is wrong, 3 when the source cannot be reached. Example:

    onramp sources check shop --schema app --rows
    """
    from services.cdc.setup.check_sql import facts
    from services.cdc.setup.login_sql import require_login

    entry = Entry(name, schema, dsn_env, data_dir=data_dir)
    source = entry.source(file, kafka)
    dsn = entry.required_dsn(source)
    with says_why():
        require_login(source.dsn_env, dsn)
        found = list(facts(name, source, dsn, rows=rows))
    if as_json:
        print(json.dumps([fact._asdict() for fact in found]))
    else:
        print_table(("RESULT", "FINDING", "FIX"), [(fact.level, fact.what, fact.fix) for fact in found])
    raise typer.Exit(Exit.FAILED if any(fact.level == "wrong" for fact in found) else Exit.OK)


@app.command()
def add(
    name: NameArgument,
    *,
    schema: SchemaOption,
    dsn_env: EnvOption = "",
    publish: PublishOption = "",
    exclude: ExcludeOption = None,
    reason: ReasonOption = "",
    kafka: KafkaOption = None,
    data_dir: DataDirOption = DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Add a source to the registry in Kafka; the agent captures it from then on.

    If the variable `dsn_env` has the source's DSN, the command first checks that the schemas exist. It then
    hands the DSN to a running `onramp up`, without a restart; run it again to replace the password. The entry
    can also be written into onramp.yaml for `onramp apply` (docs/sources.md). Exits with 1 when a schema does
    not exist, when another source has that name, or when the change is refused. Example:

    onramp sources add shop --schema app
    """
    entry = Entry(name, schema, dsn_env, data_dir=data_dir, publish=publish, exclude=exclude)
    entry.require_schemas()

    def added(there: dict[str, Any]) -> dict[str, Any]:
        if name in there and not entry.is_same(there[name]):
            raise ValueError(f"there is a source {name}: change it by onramp apply, or remove it first")
        entry.hand_over(kafka)
        return {**there, name: there.get(name, entry.document)}

    result = changed(added, reason, kafka, data_dir)
    finish_change(result, as_json=as_json, done=f"added: {name}; {entry.next_step(kafka)}")


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

    Published rows stay. `onramp sources list` shows the source until the agent has done so. Exits with 1 when
    there is none of that name. Example:

    onramp sources remove shop --reason "it has moved"
    """

    def removed(there: dict[str, Any]) -> dict[str, Any]:
        if name not in there:
            raise ValueError(f"there is no source {name}")
        return {each: value for each, value in there.items() if each != name}

    done = f"removed: {name}; the agent drops its slot and its offsets"
    finish_change(changed(removed, reason, kafka, data_dir), as_json=as_json, done=done)


@app.command()
@with_database_options
def resync(
    where: Where, name: NameArgument, *, no_wait: NoWaitOption = False, as_json: JsonOption = False
) -> None:
    """Re-snapshot a source: missing rows are added, and rows deleted meanwhile are removed.

    Shows the progress until all tables are merged; Ctrl-C ends the display, not the resync. Exits with 1
    when no such source is published, or its agent does not poll; 3 when a database cannot be reached.
    Example:
    onramp sources resync shop
    """
    from services.cli.show.resync_progress import follow, request

    where.require_database()
    with says_why():
        databases = request(where, name)
        is_over = no_wait or follow(where, databases, name)
    wait = f"{name}: its agent does not poll, and the resync waits for it: `onramp sources list`"
    finish(
        {"source": name, "databases": databases},
        worked=bool(databases) and is_over,
        as_json=as_json,
        done=f"{name}: {'a resync is requested' if no_wait else 're-snapshotted'}",
        problem=wait if databases else f"no source {name} is published to {', '.join(where.databases)}",
    )
