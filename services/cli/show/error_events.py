"""Parked and waiting events as `onramp errors` prints them: lines, counts, all of one, or its bytes."""

import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer

from services.cli.exits import Exit, complain

if TYPE_CHECKING:
    from services.admin.errors.records import ErrorEvent
    from services.admin.errors.view import ErrorView


@dataclass(frozen=True, slots=True, kw_only=True)
class Printer:
    """How events are printed: with their values or without, as JSON or as text."""

    value: bool
    as_json: bool

    def line(self, event: "ErrorEvent") -> str:
        """Return an event as one line."""
        fields = event.as_dict(value=self.value)
        if self.as_json:
            return json.dumps(fields)
        time = _time_of(event.timestamp)
        text = f"{time}  {event.state}  {event.code}  {event.key}  {event.reason.get('detail', '')}"
        return _safe(f"{text}  {fields['value']}" if self.value else text)


async def print_last(view: "ErrorView", printer: Printer, *, count: int, kind: str, follow: bool) -> None:
    """Print the last `count` events of `kind` (empty: of both), and with `follow` those that come."""
    from services.admin.errors.view import of_kind

    for event in view.newest(count, of_kind(view.events.values(), kind)):
        print(printer.line(event), flush=True)
    if follow:
        async for event in view.follow():
            if of_kind([event], kind):
                print(printer.line(event), flush=True)


def print_counts(view: "ErrorView", *, as_json: bool) -> None:
    """Print how many events there are of each state, code, event and destination, most first."""
    from services.admin.errors.records import count, escaped

    groups = sorted(count(view.events).items(), key=lambda item: (-item[1], item[0]))
    if as_json:
        print(json.dumps([group._asdict() | {"events": n} for group, n in groups]))
        return
    for group, n in groups:
        destination = escaped(group.destination.encode()) or "-"
        print(f"{n:>9,}  {group.state}  {group.code}  {group.event}  {destination}")
    if not groups and not view.unread:
        print("Nothing is parked and nothing waits.")


def print_one(event: "ErrorEvent", printer: Printer) -> None:
    """Print all that is known of one event; its reason's own fields behind those of the event."""
    fields = event.as_dict(value=printer.value)
    if printer.as_json:
        print(json.dumps(fields))
        return
    reason = fields.pop("reason")
    for name, field in (fields | {n: f for n, f in reason.items() if n not in fields}).items():
        print(f"{name}: {_safe(field)}")


def write_value(event: "ErrorEvent") -> None:
    """Write the event's bytes to standard output, and nothing else; a record without any exits with 1."""
    if event.value is None:
        complain("the record has no value, so there are no bytes")
        raise typer.Exit(Exit.FAILED)
    sys.stdout.buffer.write(event.value)
    sys.stdout.buffer.flush()


def _time_of(milliseconds: int) -> str:
    """Return a record's time, which its client chose; "?" where no calendar has it."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return "?"


def _safe(field: object) -> str:
    """Escape control characters: keys and reasons come from topics that others may write to."""
    from services.admin.errors.records import escaped

    return escaped(str(field).encode("utf-8", "backslashreplace")) or ""
