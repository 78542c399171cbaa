"""`onramp lake`: the Delta tables of the events: the service, and what operators do with the tables."""

import json
import os
import sys
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final

import typer

from services.cli.exits import Exit, complain, exits_when_unavailable
from services.cli.options import DATA_DIR, DataDirOption, JsonOption
from services.cli.show.tables import print_table
from services.cli.verbs.lake_tables import maintenance
from services.cli.verbs.lake_tables.options import UrlOption, mib, number, storage_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from services.ops.lake.delta_facts import PartitionFacts, TableFacts

app = typer.Typer(rich_markup_mode=None)
app.command()(maintenance.compact)
app.command()(maintenance.vacuum)

_TABLE_COLUMNS: Final = (
    "TABLE",
    "ROWS",
    "FILES",
    "SMALL",
    "MIB",
    "DATES",
    "LAST RECEIVED",
    "LAST COMPACTION",
)
_NUMBERS: Final = ("ROWS", "FILES", "SMALL", "MIB", "DATES", "VERSION")


@app.callback(invoke_without_command=True)
def lake(context: typer.Context) -> None:
    """Run the lake service until Ctrl-C or SIGTERM: from Kafka into Delta tables; or use its tables.

    Settings come from the environment (docs/settings.md). For example:

    ONRAMP_LAKE_URL=s3://company-events/lake ONRAMP_KAFKA_BOOTSTRAP=127.0.0.1:9092 onramp lake

    onramp lake tables
    """
    if context.invoked_subcommand is None:
        from stack.java import find_java

        os.environ["JAVA_HOME"] = str(find_java().home)
        os.execv(sys.executable, [sys.executable, "-m", "services.lake"])  # noqa: S606 - no shell is meant


@app.command()
def tables(*, url: UrlOption = None, data_dir: DataDirOption = DATA_DIR, as_json: JsonOption = False) -> None:
    """Print the tables with their rows, files and last compaction.

    SMALL counts files below 32 MiB, which compaction rewrites. Example:

    onramp lake tables
    """
    from services.ops.lake.delta_facts import BrokenTable, tables_facts

    with exits_when_unavailable():
        found = [*tables_facts(storage_of(url, data_dir))]
    broken = [each for each in found if isinstance(each, BrokenTable)]
    if as_json:
        print(json.dumps([each.as_dict() for each in found]))
    else:
        print_table(
            _TABLE_COLUMNS,
            [_row(each) for each in found if not isinstance(each, BrokenTable)],
            _NUMBERS,
        )
        if not found:
            print("The lake has no tables yet: an event type with a destination of type lake creates one.")
    for each in broken:
        complain(f"table {each.table} cannot be read: {each.error}")
    raise typer.Exit(Exit.FAILED if broken else Exit.OK)


@app.command()
def show(
    table: Annotated[str, typer.Argument(help="The table.")],
    *,
    url: UrlOption = None,
    data_dir: DataDirOption = DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Print a table's columns, and the rows and files of each date.

    Example:
    onramp lake show flights
    """
    from services.ops.lake.delta_facts import facts, opened, partition_facts

    storage = storage_of(url, data_dir)
    with exits_when_unavailable():
        handle = opened(storage, table)
        known, partitions = facts(table, handle), partition_facts(handle)
    columns = [(field.name, _plain(str(field.type))) for field in handle.schema().fields]
    if as_json:
        dates = [each.as_dict() for each in partitions]
        more = {"url": storage.table_url(table), "columns": dict(columns), "partitions": dates}
        print(json.dumps(known.as_dict() | more))
        return
    print(f"{storage.table_url(table)} at version {known.version}")
    print_table(_TABLE_COLUMNS, [_row(known)], _NUMBERS)
    print()
    print_table(("COLUMN", "TYPE"), columns)
    print()
    _print_partitions(partitions)


def _plain(kind: str) -> str:
    """Return the name of a type: delta-rs writes `PrimitiveType("string")`."""
    return kind.removeprefix("PrimitiveType").strip("(\"')")


def _print_partitions(partitions: "Sequence[PartitionFacts]") -> None:
    rows = [
        (each.partition, number(each.rows), number(each.files), number(each.small_files), mib(each.bytes))
        for each in partitions
    ]
    print_table(("PARTITION", "ROWS", "FILES", "SMALL", "MIB"), rows, _NUMBERS)


@app.command()
def query(
    sql: Annotated[str, typer.Argument(help="A query in the SQL of DuckDB.")],
    *,
    limit: Annotated[int, typer.Option(help="Maximum rows to print.", min=1)] = 1000,
    url: UrlOption = None,
    data_dir: DataDirOption = DATA_DIR,
    as_json: JsonOption = False,
) -> None:
    """Run a query on the tables with DuckDB, in this process; each table at its newest version.

    The query reads no other files. A column p_NAME holds a property of the event type, `payload` the whole
    payload as JSON. --json prints one object a line. Examples:

    onramp lake query "SELECT _date, count(*) FROM flights GROUP BY ALL"

    onramp lake query "SELECT max(p_delay) FROM flights" --json
    """
    from services.ops.lake.delta_query import QueryError
    from services.ops.lake.delta_query import query as run_query

    try:
        with exits_when_unavailable(), run_query(storage_of(url, data_dir), sql) as result:
            rows = [*islice(result.rows, limit)]
            has_more = next(result.rows, None) is not None
            columns = result.columns
    except QueryError as error:
        complain(str(error))
        raise typer.Exit(Exit.FAILED) from error
    if as_json:
        for row in rows:
            print(json.dumps(row))
    else:
        print_table(columns, [tuple(map(_cell, row.values())) for row in rows])
    if has_more:
        complain(f"only the first {limit:,} rows are printed: give --limit, or a LIMIT in the query")


def _row(each: "TableFacts") -> tuple[str, ...]:
    return (
        each.table,
        number(each.rows),
        number(each.files),
        number(each.small_files),
        mib(each.bytes),
        number(each.dates),
        each.last_received_at or "",
        each.last_compaction_at or "",
    )


def _cell(value: object) -> str:
    return json.dumps(value) if isinstance(value, (list, dict)) else "" if value is None else str(value)
