"""Stored events as lines for Postgres' COPY, which preserve any text."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from services.ops.parked.parked_events import StoredEvent

#: The types of a row's values.
Value = str | int | bytes | datetime | None
#: Bytes of a block: more than the driver reads at once, and a small part of a slice.
_BLOCK: Final = 64 * 1024


def as_file(lines: Iterable[str]) -> Any:
    """Return lines as a file for COPY, with one block in memory at a time."""
    return _Lines(lines)


class _Lines:
    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)

    def read(self, _: int = -1) -> bytes:
        """Return the next block, empty at the end."""
        block: list[str] = []
        size = 0
        for line in self._lines:
            block.append(line)
            size += len(line)
            if size >= _BLOCK:
                break
        return "".join(block).encode()


def event_line(first: int, event: StoredEvent, group: int) -> str:
    """Return the line of an event: its number, its group and its columns."""
    fields = (
        str(first),
        event.topic_id,
        _copied(event.topic),
        str(event.partition),
        str(event.offset),
        _copied(event.destination),
        str(group),
        _copied(event.code),
        _copied(event.event_id),
        _copied(event.event_name),
        event.parked_at.isoformat(),
        _copied(event.reason),
        str(len(event.value or b"")),
        _hex(event.sha256),
    )
    return "\t".join(fields) + "\n"


def bytes_line(number: int, value: bytes) -> str:
    """Return the line of an event's bytes."""
    return f"{number}\t{_hex(value)}\n"


def line_of(values: Iterable[Value]) -> str:
    """Return the line of a row."""
    return "\t".join(map(_field, values)) + "\n"


def _field(value: Value) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return _hex(value)
    return str(value) if isinstance(value, int) else _copied(value)


def _copied(text: str | None) -> str:
    if text is None:
        return "\\N"
    escaped = text.replace("\\", "\\\\").replace("\t", "\\t")
    return escaped.replace("\n", "\\n").replace("\r", "\\r")


def _hex(value: bytes | None) -> str:
    return "\\N" if value is None else f"\\\\x{value.hex()}"
