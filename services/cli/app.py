"""Assembles the verbs into one command."""

import typer

from services.cli.exits import HELP, Exit, explain
from services.cli.verbs import (
    access,
    admin,
    apply,
    audit,
    databases,
    destinations,
    doctor,
    errors,
    export,
    ingest,
    journey,
    keys,
    partitions,
    plan,
    rebuild,
    send,
    sources,
    top,
    topics,
    types,
    up,
    writer,
)
from services.cli.verbs.completeness import statement, tracer
from services.cli.verbs.lake_tables import lake
from services.cli.verbs.transforms import transforms
from stack.errors import StackError

app = typer.Typer(
    name="onramp",
    help=f"Onramp: POST an event, query the row.\n\n{HELP}",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command()(up.up)
app.command()(doctor.doctor)
app.command()(ingest.ingest)
app.command()(writer.writer)
app.command()(admin.admin)
app.command()(send.send)
app.command()(apply.apply)
app.command()(plan.plan)
app.command()(export.export)
app.add_typer(errors.app, name="errors")
app.add_typer(keys.app, name="keys")
app.add_typer(access.app, name="access")
app.add_typer(types.app, name="types")
app.add_typer(databases.app, name="databases")
app.add_typer(destinations.app, name="destinations")
app.add_typer(partitions.app, name="partitions")
sources.app.command()(rebuild.rebuild)
app.add_typer(topics.app, name="topics")
app.add_typer(transforms.app, name="transforms")
app.add_typer(sources.app, name="sources")
app.add_typer(lake.app, name="lake")
app.command()(audit.audit)
app.command()(statement.statement)
app.add_typer(tracer.app, name="tracer")
app.command()(journey.journey)
app.command()(top.top)


def main() -> int:
    """Run the command line; print errors of the stack as sentences, not tracebacks."""
    try:
        app(prog_name="onramp")
    except StackError as error:
        return explain(error)
    return Exit.OK
