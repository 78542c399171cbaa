"""`onramp errors`: parked and waiting events with their reasons, from the topics."""

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from services.cli.admin_api import AdminApi
from services.cli.error_options import (
    AdminOption,
    CodeOption,
    CountOption,
    DestinationOption,
    EventOption,
    GroupArgument,
    GroupOption,
    IdOption,
    StateOption,
)
from services.cli.exits import Exit, complain, exits_when_unavailable
from services.cli.options import JsonOption
from services.cli.show.error_events import Printer, print_counts, print_last, print_one, write_value
from services.cli.show.kept_errors import (
    print_event,
    print_events,
    print_group,
    print_groups,
    write_bytes,
)
from services.cli.verbs import error_jobs
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
KeyArgument = Annotated[
    str, typer.Argument(help="The event's number, as `list` prints it, or its key, as `tail` does.")
]


@app.callback()
def errors() -> None:
    """See parked and waiting events with their reasons.

    Parked events need an operator, waiting ones time. Their values are printed only with
    --value. The databases tell which of the diverted events wait and which are drained; without
    a database these are just "diverted". Examples:

    onramp errors count

    onramp errors tail --follow

    onramp errors groups

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
    admin: AdminOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print why one event is parked or waits; exits with 1 when there is none of this key.

    By its number it is asked of `onramp admin`, at once; by its key it is looked for on the topics, which are
    read whole. To send a parked event again, fixed or as it is, write its bytes into a file. Examples:

    onramp errors show 17

    onramp errors show events.order_placed/0/17/onramp.events.order_placed --value

    onramp errors show events.order_placed/0/17/onramp.events.order_placed --raw > event.json

    onramp send event.json
    """
    if key.isdecimal():
        _show_kept(AdminApi.at(admin), f"/v1/events/{key}", value=value, raw=raw, as_json=as_json)
        return

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


@app.command()
def groups(
    number: GroupArgument = None,
    *,
    state: StateOption = None,
    code: CodeOption = None,
    event: EventOption = None,
    destination: DestinationOption = None,
    lines: CountOption = 50,
    admin: AdminOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the causes of parked events with their counts, the one that grew last first; or all of one.

    Asks `onramp admin`. Values are shown as shapes: letters a, digits 9. Examples:

    onramp errors groups --state open

    onramp errors groups 3
    """
    api = AdminApi.at(admin)
    if number is not None:
        print_group(api.get(f"/v1/groups/{number}"), as_json=as_json)
        return
    filters = {"state": state, "code": code, "event_name": event, "destination": destination}
    print_groups(api.pages("groups", lines, **filters), as_json=as_json)


@app.command("list")
def list_(
    *,
    group: GroupOption = None,
    state: StateOption = None,
    code: CodeOption = None,
    event: EventOption = None,
    event_id: IdOption = None,
    destination: DestinationOption = None,
    lines: CountOption = 50,
    admin: AdminOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print parked events without their values, the one that was kept last first.

    Asks `onramp admin`. Examples:

    onramp errors list --group 3 -n 1000

    onramp errors list --id order-17 --json
    """
    filters = {"group": group, "state": state, "code": code, "event_name": event}
    filters |= {"event_id": event_id, "destination": destination}
    print_events(AdminApi.at(admin).pages("events", lines, **filters), as_json=as_json)


app.command()(error_jobs.discard)
app.command()(error_jobs.restore)
app.command()(error_jobs.replay)
app.command()(error_jobs.jobs)


def _show_kept(api: AdminApi, path: str, *, value: bool, raw: bool, as_json: bool) -> None:
    """Print one event that the admin service keeps, or write its bytes."""
    if raw:
        write_bytes(api.read(f"{path}/value"))
        return
    found = api.get(path)
    print_event(found, api.read(f"{path}/value") if value else None, as_json=as_json)


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
