"""`onramp sources rebuild`: rebuilds a public table from its source's landed changes."""

from typing import Annotated

import typer

from services.cli.connection_options import Where, with_database_options
from services.cli.exits import Exit, complain, finish
from services.cli.options import JsonOption

TableArgument = Annotated[str, typer.Argument(help="The table as source.schema.table.")]


@with_database_options
def rebuild(where: Where, table: TableArgument, *, as_json: JsonOption = False) -> None:
    """Rebuild a public table from the beginning of its landed changes, without its source.

    Use it for a table that is suspended, or that was changed by hand. One transaction replaces its rows.
    Exits with 1 when the first changes have been deleted, 3 when a database cannot be reached. Example:

    onramp sources rebuild shop.app.orders
    """
    from services.cdc.agent.source_state_sql import StateStoreError
    from services.cdc.setup import source_requests_sql

    where.require_database()
    if table.count(".") < len(("source", "schema")):
        raise typer.BadParameter("a table is named source.schema.table", param_hint="table")
    source, schema, name = table.split(".", 2)
    try:
        answers = [source_requests_sql.rebuild(dsn, source, schema, name) for dsn in where.databases.values()]
    except StateStoreError as error:
        complain(str(error))
        raise typer.Exit(Exit.UNAVAILABLE) from None
    finish(
        {"table": table, "rebuilds": "" in answers},
        worked="" in answers,
        as_json=as_json,
        done=f"{table} is rebuilt by the merger from the changes in landing",
        problem=f"{table}: {max(answers, key=len)}",
    )
