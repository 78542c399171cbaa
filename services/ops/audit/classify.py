"""Classifies a record of an event topic: the audit's own implementation of the contract.

It deliberately shares no code with the writer's SORT or the gateway's CHECK, so that it reveals
their faults.  It is more lenient: an event that it accepts may still have been parked for a
reason that it does not know.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from enum import Enum, auto
from typing import Any, Final, NamedTuple
from uuid import UUID

from services.ops.kafka_logs import LogRecord
from services.ops.times import as_time
from shared import wire
from shared.parse_errors import UNREADABLE

_FILTER: Final = {"consumer": {"type": "data_pipeline"}}


class Kind(Enum):
    """The kind of a record."""

    FILTERED = auto()
    PROBE = auto()
    ENVELOPE = auto()
    PACKET = auto()
    CHANGE = auto()
    UNROUTABLE = auto()


@dataclass(frozen=True, slots=True)
class Event:
    """A record of an event topic.  `id` and `name` are an envelope's."""

    kind: Kind
    offset: int
    id: str = ""
    name: str = ""
    document: Any = None
    value: bytes | None = None

    def edited(self, value: bytes) -> "Event":
        """Return the event with an operator's fix applied: its envelope is the same."""
        return replace(self, value=value, document=json.loads(value))

    def compared(self, row: Any) -> "Comparison":
        """Compare `row` (as `totals_sql.Row`) with this event, but for its id and receipt."""
        metadata = self.document["metadata"]
        same = {
            "_event_name": row.event_name == self.name,
            "_version": row.version == metadata.get("version"),
            "_timestamp": _same_time(row.timestamp, metadata.get("timestamp")),
        } | self._compared_payload(row)
        unread = tuple(column for column, is_same in same.items() if is_same is None)
        return Comparison(False not in same.values(), unread)

    def _compared_payload(self, row: Any) -> dict[str, bool | None]:
        """Return by column whether the values are equal, or None if one of them cannot be read."""
        sent, there = _exact(self.value or b"null")["payload"], _exact(row.payload)
        if row.fields is None:  # a table of one field that is called payload looks like a landing table
            is_boxed = sent.keys() == {"payload"} and _equal(sent["payload"], there)
            return {"payload": _equal(sent, there) or is_boxed}
        return {
            name: _same_value(sent[name], there.get(name), type_)
            for name, type_ in row.fields.items()
            if name in sent
        }

    def destinations(self, refused: Collection[str]) -> Counter[str]:
        """Count the tables that a packet names, by database, without those at the pointers `refused`."""
        context = self.document["pipeline_context"]
        named = context.get("destinations") if isinstance(context, dict) else None
        if not isinstance(named, list) or not named:
            return Counter({"": 1})
        pointers = [f"/pipeline_context/destinations/{i}" for i in range(len(named))]
        kept = [d for pointer, d in zip(pointers, named, strict=True) if pointer not in refused]
        return Counter({_identity(d): _database(d) for d in kept}.values())


class Comparison(NamedTuple):
    """The comparison of a row with an event; `unread`: columns whose values cannot be read."""

    same: bool
    unread: tuple[str, ...]


def classify(record: LogRecord, topic: str = "") -> Event:
    """Return the classified record of `topic`; only a source's topic has changes."""
    if record.header_count > wire.MAX_HEADERS or _are_too_large(record.headers):
        return Event(Kind.UNROUTABLE, record.offset, value=record.value)
    if not _is_for_us(record.headers):
        return Event(Kind.FILTERED, record.offset)
    return read(record.offset, record.value, topic)


def read(offset: int, value: bytes | None, topic: str = "") -> Event:
    """Return the classified value of a record without its headers, as a replay reads it."""
    try:
        document = json.loads(value or b"")
    except UNREADABLE:
        document = None
    if topic.startswith(wire.CHANGE_TOPIC_PREFIX) and _is_change(document):
        return Event(Kind.CHANGE, offset, document=document, value=value)
    match document:
        case {"pipeline_context": _}:
            return Event(Kind.PACKET, offset, document=document, value=value)
        case {"metadata": {"id": str(id_)}, "event_name": str(name), "payload": {}}:
            kind = Kind.PROBE if name == wire.PROBE_EVENT else Kind.ENVELOPE
            return Event(kind, offset, id_, name, document, value)
    return Event(Kind.UNROUTABLE, offset, value=value)


def _is_change(document: Any) -> bool:
    """Return whether it is a change of a source's table, or a transaction record."""
    match document:
        case {"op": str(), "source": {"schema": str(), "table": str()}} | {"status": str(), "id": str()}:
            return True
    return False


def _are_too_large(headers: Mapping[str, bytes]) -> bool:
    """Return whether headers exceed the limit, so that the owner is unknown.  A lone NUL is no context."""
    context, received_at = (headers.get(name) for name in (wire.HEADER_CONTEXT, wire.HEADER_RECEIVED_AT))
    size = len(context or b"") + len(received_at or b"")
    return bool(context) and context != b"\0" and size > wire.MAX_HEADER_BYTES


def _is_for_us(headers: Mapping[str, bytes]) -> bool:
    try:
        return bool(json.loads(headers[wire.HEADER_CONTEXT]) == _FILTER)
    except UNREADABLE:
        return False


def _database(destination: Any) -> str:
    """Return the public name of the database, or an empty text if it cannot be read."""
    named = _named(destination) if isinstance(destination, dict) else None
    return named if isinstance(named, str) else ""


def _named(destination: Mapping[str, Any]) -> Any:
    """Return the database's vanity name, else its name."""
    return destination.get("vanity") or destination.get("database")


def _identity(destination: Any) -> str:
    """Return a text that is equal for destinations that are one table."""
    if not isinstance(destination, dict):
        return json.dumps(destination)
    return json.dumps(
        [_named(destination), destination.get("schema"), destination.get("table"), destination.get("type")]
    )


def _same_time(row: datetime | None, sent: Any) -> bool | None:
    """Return whether two times are equal to the microsecond; unreadable spellings are not compared.

    None if neither is within the years 1 to 9999 in UTC.
    """
    try:
        moment = datetime.fromisoformat(sent.upper())
        if row is not None:
            return abs((moment - row).total_seconds()) < 2e-6  # noqa: PLR2004
        return False if moment.astimezone(UTC) else None
    except OverflowError:
        return None
    except (ValueError, AttributeError, TypeError):
        return True


def _same_value(sent: Any, there: Any, type_: str) -> bool | None:
    """Return whether a column of this type has the sent value: `null` is NULL, numbers may be strings.

    None if one of the two cannot be read as a value of this type.
    """
    if sent is None or there is None:
        return sent is there
    try:
        if type_ in ("numeric", "int8"):
            return Decimal(sent) == there if isinstance(sent, str) else _equal(sent, there)
        if type_ == "uuid":
            return UUID(sent) == UUID(there)
    except (ArithmeticError, ValueError, AttributeError):  # the column had another type when it landed
        return None
    if type_ == "timestamptz":
        return _same_time(as_time(there), sent)
    return _equal(sent, there)


def _exact(text: str | bytes) -> Any:
    return json.loads(text, parse_float=_number, parse_int=_number)


def _number(text: str) -> Decimal | tuple[str]:
    """Return a number; an exponent beyond Decimal's range equals only itself."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return (text,)


def _equal(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal; in Python, true equals 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(v, other[k]) for k, v in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)
