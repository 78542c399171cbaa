"""`onramp errors`: parked events with their reasons, from the admin service and the topics' ends."""

import asyncio
import getpass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from services.cli.admin_api import KEY_FILE, AdminApi
from services.cli.connection_options import Where, with_where_options
from services.cli.error_edits import download
from services.cli.error_options import (
    AdminOption,
    CodeOption,
    CountOption,
    DestinationOption,
    EventOption,
    GroupArgument,
    GroupOption,
    IdOption,
    KeyFileOption,
    StateOption,
)
from services.cli.exits import Exit, complain, exits_when_unavailable
from services.cli.options import JsonOption, WriterOption
from services.cli.show.error_events import Printer
from services.cli.show.parked_groups import (
    print_counts,
    print_event,
    print_events,
    print_group,
    print_groups,
    write_bytes,
)
from services.cli.show.waiting import print_waiting
from services.cli.verbs import error_jobs
from services.cli.verbs.mark import mark
from services.cli.verbs.recheck import recheck

if TYPE_CHECKING:
    from services.ops.findings import Source

#: Maximum destinations of one event in a search.
_MAX: Final = 10_000

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


class Kind(StrEnum):
    """Kinds of events: parked ones need an operator, waiting ones land without one."""

    parked = "parked"
    waiting = "waiting"


LinesOption = Annotated[int, typer.Option("--lines", "-n", min=0, help="Number of the newest events.")]
FollowOption = Annotated[bool, typer.Option("--follow", "-f", help="Continue until Ctrl-C.")]
KindOption = Annotated[Kind | None, typer.Option(help="Only these.", show_default=False)]
WhyOption = Annotated[
    str, typer.Option("--reason", help="Reason for reading the value of a stored event; it is logged.")
]
ValueOption = Annotated[bool, typer.Option("--value", help="Print the event itself, escaped.")]
RawOption = Annotated[
    bool, typer.Option("--raw", help="Write the event's exact bytes and nothing else, for a file.")
]
KeyArgument = Annotated[
    str, typer.Argument(help="The event's number, as `list` prints it, or its key, as `tail` does.")
]


@app.callback()
def errors(*, key_file: KeyFileOption = None) -> None:
    """See parked events with their reasons, and act on them; see waiting events.

    Parked events need an operator; waiting events land without one. Values are printed only on request.
    `tail` reads the ends of the topics, `waiting` queries databases, writer and Kafka; all other verbs query
    `onramp admin`, which `onramp up` starts. Examples:

    onramp errors count

    onramp errors waiting

    onramp errors tail --follow

    onramp errors groups

    onramp errors show events.order_placed/0/17/onramp.events.order_placed

    onramp errors --key-file ann.key groups
    """
    KEY_FILE.set(key_file)


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
    """Print the last events that were parked or diverted, one a line, from the ends of the topics.

    The databases determine which diverted events wait and which have drained; while one does not answer,
    its events are just "diverted". Example:

    onramp errors tail -n 50 --kind parked
    """
    printer = Printer(value=value, as_json=as_json)
    try:
        with exits_when_unavailable():
            asyncio.run(_tail(where, printer, count=lines, kind=kind or "", follow=follow))
    except KeyboardInterrupt:
        raise typer.Exit(Exit.OK) from None


@app.command()
@with_where_options
def waiting(where: Where, *, writer: WriterOption = None, as_json: JsonOption = False) -> None:
    """Print waiting events with reason, time and next step, and when Kafka deletes unsettled ones.

    It queries databases for holds, the running writer for events on Kafka, and Kafka for unsettled offsets.
    Exits with 0 when nothing waits, 1 when something does, 3 when one of them does not answer. Example:

    onramp errors waiting --json
    """
    from services.ops.waiting_report import collect_waiting

    report = asyncio.run(collect_waiting(where.brokers, where.databases, [writer or where.writer]))
    print_waiting(report, as_json=as_json)
    if not report.is_whole:
        raise typer.Exit(Exit.UNAVAILABLE)
    raise typer.Exit(Exit.OK if report.is_empty else Exit.FAILED)


@app.command()
def count(*, admin: AdminOption = None, as_json: JsonOption = False) -> None:
    """Print the 1,000 largest counts of parked events by state, code, event and destination.

    Queries `onramp admin`. Example: onramp errors count --json
    """
    print_counts(AdminApi.at(admin).get("/v1/counts")["counts"], as_json=as_json)


@app.command()
def show(
    key: KeyArgument,
    *,
    value: ValueOption = False,
    raw: RawOption = False,
    reason: WhyOption = "",
    admin: AdminOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print why one event is parked; exits with 1 when there is none of this number or key.

    Queries `onramp admin`, which logs who reads a value and why. To send an event again, fixed or unchanged,
    write its bytes into a file. Examples:

    onramp errors show 17

    onramp errors show 17 --value --reason "which of the two dates is wrong?"

    onramp errors show events.order_placed/0/17/onramp.events.order_placed --raw --reason "a fix" > event.json

    onramp send event.json
    """
    if (value or raw) and not reason:
        raise typer.BadParameter("give a reason: reading a value is logged", param_hint="--reason")
    api = AdminApi.at(admin)
    path = f"/v1/events/{key if key.isdecimal() else _number_of(api, key)}"
    why = {"reason": reason, "actor": getpass.getuser()}
    if raw:
        write_bytes(api.send(f"{path}/reveal", why))
        return
    found = api.get(path)
    print_event(found, api.send(f"{path}/reveal", why) if value else None, as_json=as_json)


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
    """Print the causes of parked events with their counts, the newest first; or one cause in full.

    Queries `onramp admin`. Values are shown as shapes: letters a, digits 9. Examples:

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
    """Print parked events without their values, the newest first.

    Queries `onramp admin`. Examples:

    onramp errors list --group 3 -n 1000

    onramp errors list --id order-17 --json
    """
    filters = {"group": group, "state": state, "code": code, "event_name": event}
    filters |= {"event_id": event_id, "destination": destination}
    print_events(AdminApi.at(admin).pages("events", lines, **filters), as_json=as_json)


app.command()(error_jobs.acts)
app.command()(error_jobs.discard)
app.command()(error_jobs.restore)
app.command()(error_jobs.rehearse)
app.command()(error_jobs.replay)
app.command()(error_jobs.jobs)
app.command()(mark)
app.command()(recheck)
app.command()(download)


def _number_of(api: AdminApi, key: str) -> int:
    """Return the number of the event with this key; the newest one if the topic was recreated."""
    topic, partition, offset, destination = [*key.split("/", 3), *[""] * 3][:4]
    found: list[dict[str, Any]] = []
    if partition.isdecimal() and offset.isdecimal():
        place = {"topic": topic, "partition": partition, "offset": offset}
        # One position has an event for each destination; a key without a destination names none.
        found = [e for e in api.pages("events", _MAX, **place) if e["destination"] == destination]
    if not found:
        complain("no parked event has this key; `onramp errors tail` prints the keys")
        raise typer.Exit(Exit.FAILED)
    return int(found[0]["id"])


async def _tail(where: Where, printer: Printer, *, count: int, kind: str, follow: bool) -> None:
    from services.ops.kafka_logs import KafkaLogs, no_leader
    from services.ops.parked.tail import ErrorTail

    async with KafkaLogs(where.brokers) as logs:
        tail = ErrorTail(logs, _ledgers(where))
        found = await tail.last(count, kind)
        if tail.unread:
            complain(f"{no_leader(tail.unread)}; its events are not shown")
        for event in found:
            print(printer.line(event), flush=True)
        if follow:
            async for event in tail.follow(kind):
                print(printer.line(event), flush=True)


def _ledgers(where: Where) -> "dict[str, dict[Source, int]]":
    """Return the ledger of each database; print an error for each unreachable one, and skip it."""
    from services.ops.operate.ledgers_sql import ledger_of
    from shared.errors import InfrastructureError

    ledgers = {}
    for name, dsn in where.databases.items():
        try:
            ledgers[name] = ledger_of(name, dsn)
        except InfrastructureError as error:  # an outage is when waiting events matter
            complain(f"{error.detail}: its drained events are unknown")
    return ledgers
