"""Parses the records of `onramp.user_errors` and `onramp.system_errors`.

Both topics have repeats: an interrupted relay or batch is repeated.  Repeats under one key are
one event.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import orjson

from services.ops.findings import Source
from services.ops.kafka_logs import LogRecord
from shared.printable_text import printable

HEADER_ERROR: Final = "onramp-error"
HEADER_WAITING: Final = "onramp-waiting"
PARKED: Final = "parked"
#: Diverted to the topic; only its database knows whether it waits or has drained.
DIVERTED: Final = "diverted"
WAITING: Final = "waiting"
DRAINED: Final = "drained"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorEvent:
    """A parked or waiting event.  The `destination` of a waiting event is its database."""

    key: str
    state: str
    code: str
    source: Source
    offset: int
    destination: str
    reason: Mapping[str, Any]
    value: bytes | None
    timestamp: int

    @property
    def event(self) -> str:
        """Return the event's name, else its topic."""
        return event_name(self.value) or self.source.topic

    def as_dict(self, *, value: bool) -> dict[str, Any]:
        """Return it as a JSON document; with the event's bytes only if `value` is set."""
        fields = {
            "key": self.key,
            "state": self.state,
            "code": self.code,
            "event": self.event,
            "destination": self.destination,
            "topic": self.source.topic,
            "partition": self.source.partition,
            "offset": self.offset,
            "parked_at_ms": self.timestamp,
            "reason": dict(self.reason),
        }
        return fields | {"value": escaped(self.value)} if value else fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """Closes a diverted range: `count` distinct offsets of [`start`, `end`) wait for `database`."""

    database: str
    topic_id: str
    source: Source
    start: int
    end: int
    count: int
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Empty:
    """Closes ranges without waiting events for their database."""

    markers: tuple[Marker, ...]


class _Reason(msgspec.Struct):
    topic: str
    partition: int
    offset: int
    code: str
    destination: str


class _MarkerHead(msgspec.Struct, tag_field="kind", tag="marker"):
    database: str
    topic_id: str
    partition: tuple[str, int]
    start: int
    end: int
    count: int
    digest: str = ""


class _EmptyHead(msgspec.Struct, tag_field="kind", tag="empty"):
    database: str
    digest: str
    topics: list[tuple[str, str, list[tuple[int, int, int]]]]


class _EventHead(msgspec.Struct, tag_field="kind", tag="event"):
    database: str
    topic: str
    partition: int
    offset: int


_Head: Final = _MarkerHead | _EmptyHead | _EventHead


def parked(record: LogRecord) -> ErrorEvent | None:
    """Return the parked event of a record of `onramp.user_errors`, or None for a foreign record."""
    reason = _header(record, HEADER_ERROR)
    named = _converted(reason, _Reason)
    if reason is None or named is None or record.key is None:
        return None
    source = Source(named.topic, named.partition)
    key = record.key.decode(errors="backslashreplace")
    return ErrorEvent(
        key=key,
        state=PARKED,
        code=named.code,
        source=source,
        offset=named.offset,
        destination=named.destination,
        reason=reason,
        value=record.value,
        timestamp=record.timestamp,
    )


def diverted(record: LogRecord) -> ErrorEvent | Marker | Empty | None:
    """Return the event or markers of a record of `onramp.system_errors`, or None for a foreign record."""
    header = _header(record, HEADER_WAITING)
    head = _converted(header, _Head)
    if header is None or head is None:
        return None
    if isinstance(head, _MarkerHead):
        source = Source(*head.partition)
        return Marker(
            database=head.database,
            topic_id=head.topic_id,
            source=source,
            start=head.start,
            end=head.end,
            count=head.count,
            digest=head.digest,
        )
    if isinstance(head, _EmptyHead):
        spans = ((of, topic, span) for of, topic, spans in head.topics for span in spans)
        return Empty(
            tuple(
                Marker(
                    database=head.database,
                    topic_id=of,
                    source=Source(topic, n),
                    start=start,
                    end=end,
                    count=0,
                    digest=head.digest,
                )
                for of, topic, (n, start, end) in spans
            )
        )
    source = Source(head.topic, head.partition)
    return ErrorEvent(
        key=f"{source}/{head.offset}/{head.database}",
        state=DIVERTED,
        code="database_unavailable",
        source=source,
        offset=head.offset,
        destination=head.database,
        reason=header,
        value=record.value,
        timestamp=record.timestamp,
    )


def _converted(document: dict[str, Any] | None, shape: Any) -> Any:
    """Return `document` as that type, or None for a foreign record."""
    try:
        return msgspec.convert(document, shape)
    except msgspec.ValidationError:
        return None


def _header(record: LogRecord, name: str) -> dict[str, Any] | None:
    """Return a header's JSON object, or None: any client may write to these topics."""
    try:
        document = orjson.loads(record.headers[name])
        orjson.dumps(document)
    except (KeyError, TypeError, orjson.JSONDecodeError):  # TypeError: it is null, or nested too deep to keep
        return None
    return document if isinstance(document, dict) else None


def event_name(value: bytes | None) -> str:
    """Return the event's name, or an empty text if it cannot be read."""
    try:
        document = orjson.loads(value or b"null")
    except orjson.JSONDecodeError:
        return ""
    name = document.get("event_name") if isinstance(document, dict) else None
    # Names are printed on terminals, so only characters that the envelope allows.
    return name if isinstance(name, str) and name.isascii() and name.isidentifier() else ""


def escaped(value: bytes | None) -> str | None:
    """Return `value` for a terminal: control characters escaped, non-text bytes as hex."""
    if value is None:
        return None
    return printable(value.decode("utf-8", "backslashreplace"))
