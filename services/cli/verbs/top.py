"""`onramp top`: live rates, backlogs and errors, from both services' /figures."""

import sys
from typing import Annotated

import typer

from services.cli.options import DATA_DIR, DataDirOption, JsonOption, WriterOption

GatewayOption = Annotated[
    str | None,
    typer.Option(
        help="The gateway's address, that of its port for operators if it has one; without it that of "
        "`onramp up`.",
        show_default=False,
    ),
]
SecondsOption = Annotated[float, typer.Option(min=0.1, help="Seconds between two readings.")]
OnceOption = Annotated[bool, typer.Option("--once", help="Print once, and end.")]


def top(
    *,
    gateway: GatewayOption = None,
    writer: WriterOption = None,
    data_dir: DataDirOption = DATA_DIR,
    seconds: SecondsOption = 2.0,
    once: OnceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show event types and databases live: in and out a second, parked, waiting, lag and p99.

    The command reads only /figures of both services. In a pipe it prints once. Exits with 3 when a service
    does not answer. Examples:

    onramp top

    onramp top --once --json

    onramp top --gateway http://gateway.example:8090 --writer http://writer.example:8081
    """
    from services.cli.top_run import TopRun
    from stack.addresses import known

    here = known(data_dir)
    run = TopRun(gateway or here.gateway, writer or here.writer, seconds)
    once = once or as_json or not sys.stdout.isatty()
    raise typer.Exit(run.once(as_json=as_json) if once else run.stay())
