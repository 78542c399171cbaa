"""`onramp errors`: parked and waiting events with their reasons, from the topics."""

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from services.cli.exits import Exit, complain, exits_when_unavailable
from services.cli.options import JsonOption
from services.cli.show.error_events import Printer, print_counts, print_last, print_one, write_value
from services.cli.where import Where, with_where_options

if TYPE_CHECKING:
    from services.admin.errors.view import ErrorView

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


class Kind(StrEnum):
    """What events need: an operator, or time."""

    parked = "parked"
    waiting = "waiting"


LinesOption = Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last.")]
FollowOption = Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")]
KindOption = Annotated[Kind | None, typer.Option(help="Only these.", show_default=False)]
ValueOption = Annotated[bool, typer.Option("--value", help="Print the event itself, escaped.")]
RawOption = Annotated[
    bool, typer.Option("--raw", help="Write the event's very bytes and nothing else, for a file.")
]
KeyArgument = Annotated[str, typer.Argument(help="The event's key, as `tail` prints it.")]


@app.callback()
def errors() -> None:
    """See parked and waiting events with their reasons.

    Parked events need an operator, waiting ones time. Their values are printed only with
    --value. The databases tell which of the diverted events wait and which are drained; without
    a database these are just "diverted". Examples:

    onramp errors count

    onramp errors tail --follow

    onramp errors show events.order_placed/0/17/onramp.events.order_placed --value
    """


@app.command()
@with_where_options
def tail(
    where: Where,
    *,
    lines: LinesOption = 20,
    follow: FollowOption = False,
    kind: KindOption = None,
    value: ValueOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print the last parked and waiting events, one a line.

    Example: onramp errors tail -n 50 --kind parked
    """
    printer = Printer(value=value, as_json=as_json)
    _with_view(where, lambda view: print_last(view, printer, count=lines, kind=kind or "", follow=follow))


@app.command()
@with_where_options
def count(where: Where, *, as_json: JsonOption = False) -> None:
    """Count parked and waiting events by code, event and destination.

    Example: onramp errors count --json
    """

    async def run(view: "ErrorView") -> None:
        print_counts(view, as_json=as_json)

    _with_view(where, run)


@app.command()
@with_where_options
def show(
    where: Where,
    key: KeyArgument,
    *,
    value: ValueOption = False,
    raw: RawOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print why one event is parked or waits; exits with 1 when there is none of this key.

    To send a parked event again, fixed or as it is, write its bytes into a file. Examples:

    onramp errors show events.order_placed/0/17/onramp.events.order_placed --value

    onramp errors show events.order_placed/0/17/onramp.events.order_placed --raw > event.json

    onramp send event.json
    """

    async def run(view: "ErrorView") -> None:
        event = view.events.get(key)
        if event is None:
            complain("no parked or waiting event has this key; `onramp errors tail` prints the keys")
            raise typer.Exit(Exit.UNAVAILABLE if view.unread else Exit.FAILED)
        if raw:
            write_value(event)
        else:
            print_one(event, Printer(value=value, as_json=as_json))

    _with_view(where, run)


def _with_view(where: Where, run: "Callable[[ErrorView], Awaitable[None]]") -> None:
    """Load the view and run; what cannot be reached is a sentence and exit code 3."""
    try:
        with exits_when_unavailable():
            asyncio.run(_load_and(where, run))
    except KeyboardInterrupt:
        raise typer.Exit(Exit.OK) from None


async def _load_and(where: Where, run: "Callable[[ErrorView], Awaitable[None]]") -> None:
    from services.admin.errors.view import ErrorView
    from services.admin.kafka_logs import KafkaLogs, no_leader

    async with KafkaLogs(where.brokers) as logs:
        view = ErrorView(logs, where.databases)
        await view.load()
        if view.unread:
            complain(f"{no_leader(view.unread)}; what is there is not shown")
        for reason in view.unknown:
            complain(f"{reason}: what has drained there is unknown")
        await run(view)
