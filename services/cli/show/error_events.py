"""Parked and diverted events as `onramp errors tail` prints them: one a line."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from services.ops.parked.records import ErrorEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Printer:
    """Prints events with or without values, as JSON or as text."""

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


def _time_of(milliseconds: int) -> str:
    """Return a record's time, chosen by its client, or "?" if it is out of range."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return "?"


def _safe(field: object) -> str:
    """Escape control characters: keys and reasons come from topics that others may write to."""
    from services.ops.parked.records import escaped

    return escaped(str(field).encode("utf-8", "backslashreplace")) or ""
