"""Kept events as lines that Postgres' COPY reads: whatever text is in them stays as it is."""

from services.admin.errors.kept import KeptEvent


def event_line(first: int, event: KeptEvent, group: int) -> str:
    """Return the line of an event of a group, behind a number of its own."""
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


def _copied(text: str | None) -> str:
    if text is None:
        return "\\N"
    escaped = text.replace("\\", "\\\\").replace("\t", "\\t")
    return escaped.replace("\n", "\\n").replace("\r", "\\r")


def _hex(value: bytes | None) -> str:
    return "\\N" if value is None else f"\\\\x{value.hex()}"
