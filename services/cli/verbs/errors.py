"""`onramp errors`: parked and waiting events with their reasons, from the topics."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from services.cli.exits import Exit
from services.cli.where import JsonOption, Where, looks

if TYPE_CHECKING:
    from services.admin.errors.records import ErrorEvent
    from services.admin.errors.view import ErrorView

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


class Kind(StrEnum):
    """Whose turn it is: a person's, or patience's."""

    parked = "parked"
    waiting = "waiting"


KindOption = Annotated[Kind | None, typer.Option(help="Only these.", show_default=False)]
ValueOption = Annotated[bool, typer.Option("--value", help="Print the event itself, escaped.")]


@app.callback()
def errors() -> None:
    """See parked and waiting events with their reasons.

    Parked events need a person, waiting ones patience. Their values are printed only with
    --value. With a database at hand the diverted are told apart into waiting and drained;
    without one they are just "diverted". Examples:

    onramp errors count

    onramp errors tail --follow

    onramp errors show events.order_placed/0/17/onramp.events.order_placed --value
    """


@app.command()
@looks
def tail(
    where: Where,
    *,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    kind: KindOption = None,
    value: ValueOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print the last parked and waiting events, one a line.

    Example: onramp errors tail -n 50 --kind parked
    """

    async def run(view: "ErrorView") -> None:
        from services.admin.errors.view import of_kind

        for event in view.newest(lines, of_kind(view.events.values(), kind or "")):
            _print(event, value=value, as_json=as_json)
        if follow:
            async for event in view.follow():
                if of_kind([event], kind or ""):
                    _print(event, value=value, as_json=as_json)

    _viewed(where, run)


@app.command()
@looks
def count(
    where: Where,
    *,
    as_json: JsonOption = False,
) -> None:
    """Count parked and waiting events by code, event and destination.

    Example: onramp errors count --json
    """

    async def run(view: "ErrorView") -> None:
        from services.admin.errors.records import count as counted
        from services.admin.errors.records import escaped

        groups = sorted(counted(view.events).items(), key=lambda item: (-item[1], item[0]))
        if as_json:
            print(json.dumps([group._asdict() | {"events": n} for group, n in groups]))
            return
        for group, n in groups:
            destination = escaped(group.destination.encode()) or "-"
            print(f"{n:>9,}  {group.state}  {group.code}  {group.event}  {destination}")
        if not groups and not view.unread:
            print("Nothing is parked and nothing waits.")

    _viewed(where, run)


@app.command()
@looks
def show(
    where: Where,
    key: Annotated[str, typer.Argument(help="The event's key, as `tail` prints it.")],
    *,
    value: ValueOption = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Write the event's very bytes and nothing else, for a file.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Print why one event is parked or waits; exits with 1 when there is none of this key.

    To send a parked event again, mended or as it is, write its bytes into a file. Examples:

    onramp errors show events.order_placed/0/17/onramp.events.order_placed --value

    onramp errors show events.order_placed/0/17/onramp.events.order_placed --raw > event.json

    onramp send event.json
    """

    async def run(view: "ErrorView") -> None:
        event = view.events.get(key)
        if event is None:
            print("onramp: no parked or waiting event has this key", file=sys.stderr)
            raise typer.Exit(Exit.UNAVAILABLE if view.unread else Exit.FAILED)
        if raw:
            _write(event)
            return
        found = event.as_dict(value=value)
        if as_json:
            print(json.dumps(found))
            return
        reason = found.pop("reason")
        for name, said in (found | {n: s for n, s in reason.items() if n not in found}).items():
            print(f"{name}: {_safe(said)}")

    _viewed(where, run)


def _viewed(where: Where, run: "Callable[[ErrorView], Awaitable[None]]") -> None:
    """Load the view and run; what cannot be reached is a sentence and exit code 3."""
    from services.admin.errors.view import ErrorView
    from services.admin.kafka_logs import KafkaLogs, no_leader
    from shared.errors import InfrastructureError

    async def work() -> None:
        async with KafkaLogs(where.brokers) as logs:
            view = ErrorView(logs, where.databases)
            await view.load()
            if view.unread:
                print(f"onramp: {no_leader(view.unread)}; what is there is not shown", file=sys.stderr)
            for why in view.unknown:
                print(f"onramp: {why}: what has drained there is unknown", file=sys.stderr)
            await run(view)

    try:
        asyncio.run(work())
    except InfrastructureError as error:
        print(f"onramp: {error.detail}", file=sys.stderr)
        raise typer.Exit(Exit.UNAVAILABLE) from error
    except KeyboardInterrupt:
        raise typer.Exit(Exit.OK) from None


def _print(event: "ErrorEvent", *, value: bool, as_json: bool) -> None:
    found = event.as_dict(value=value)
    if as_json:
        print(json.dumps(found), flush=True)
        return
    at = _at(event.timestamp)
    said = f"{at}  {event.state}  {event.code}  {event.key}  {event.reason.get('detail', '')}"
    print(_safe(f"{said}  {found['value']}" if value else said), flush=True)


def _write(event: "ErrorEvent") -> None:
    if event.value is None:
        print("onramp: the record has no value, so there are no bytes", file=sys.stderr)
        raise typer.Exit(Exit.FAILED)
    sys.stdout.buffer.write(event.value)
    sys.stdout.buffer.flush()


def _at(milliseconds: int) -> str:
    """A record's time, which is its client's word; "?" where no calendar has it."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return "?"


def _safe(said: object) -> str:
    """Keys and reasons come from topics that others may write to: no control characters."""
    from services.admin.errors.records import escaped

    return escaped(str(said).encode("utf-8", "backslashreplace")) or ""
