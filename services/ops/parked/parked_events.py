"""A parked event as the ingester stores it: any client's record results in a valid row."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson

from services.ops.kafka_logs import LogRecord
from services.ops.parked.fingerprint import Cause, cause_and_shape
from services.ops.parked.records import ErrorEvent, parked

#: The topic id of records without one.
NO_TOPIC_ID: Final = "00000000-0000-0000-0000-000000000000"
_LAST_MS: Final = 253_402_300_799_999
_MAX_PARTITION: Final = 2**31 - 1
_MAX_OFFSET: Final = 2**63 - 1
#: Maximum bytes: Postgres indexes no key of more than 2,704.
_LONGEST_KEY: Final = 2_000
_LONGEST: Final = 512


class Place(NamedTuple):
    """The identity of a parked event in the control database; a repeat has the same."""

    topic_id: str
    topic: str
    partition: int
    offset: int
    destination: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """The row of one parked event and destination."""

    topic_id: str
    topic: str
    partition: int
    offset: int
    destination: str
    cause: Cause
    code: str
    event_id: str | None
    event_name: str | None
    parked_at: datetime
    reason: str
    value: bytes | None
    version: str | None
    #: The shape of the value at its column or pointer, or None.
    shape: str | None

    @property
    def key(self) -> tuple[str, str, int, int, str]:
        """Return its identity; a repeat has the same."""
        return self.topic_id, self.topic, self.partition, self.offset, self.destination

    @property
    def sha256(self) -> bytes | None:
        """Return the digest of its bytes."""
        return None if self.value is None else sha256(self.value).digest()


def stored_event(record: LogRecord) -> StoredEvent | None:
    """Return the event of a record of `onramp.user_errors`, or None for a foreign record."""
    event = parked(record)
    place = None if event is None else place_of(event)
    if event is None or place is None:
        return None
    cause, shape = cause_and_shape(event.reason, event.value)
    return StoredEvent(
        **place._asdict(),
        cause=cause,
        code=_stored(event.code),
        event_id=_optional(event.reason, "id"),
        event_name=cause.event_name,
        parked_at=datetime.fromtimestamp(min(max(event.timestamp, 0), _LAST_MS) / 1000, UTC),
        reason=orjson.dumps(dict(event.reason)).decode(),
        value=event.value,
        version=_optional(event.reason, "version"),
        shape=shape,
    )


def place_of(event: ErrorEvent) -> Place | None:
    """Return an event's identity, or None for a foreign event, which is not stored."""
    if not _fits(event):
        return None
    return Place(
        _uuid(event.reason),
        _stored(event.source.topic),
        event.source.partition,
        event.offset,
        _stored(event.destination),
    )


def _fits(event: ErrorEvent) -> bool:
    """Return whether offsets and names are valid in Kafka and Postgres, as in Onramp's events."""
    numbers = 0 <= event.source.partition <= _MAX_PARTITION and 0 <= event.offset <= _MAX_OFFSET
    return numbers and len(f"{event.source.topic}{event.destination}{event.code}".encode()) <= _LONGEST_KEY


def _uuid(reason: Mapping[str, Any]) -> str:
    try:
        return str(UUID(reason["topic_id"]))
    except (KeyError, TypeError, ValueError, AttributeError):
        return NO_TOPIC_ID


def _optional(reason: Mapping[str, Any], name: str) -> str | None:
    told = reason.get(name)
    return _stored(told)[:_LONGEST] if isinstance(told, str) else None


def _stored(text: str) -> str:
    """Return a text without NUL, which Postgres cannot store."""
    return text.replace("\0", "\\0")
