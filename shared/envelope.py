"""Parses and checks envelopes, the events that producers send, in the gateway and again in the writer.

Any Kafka client may write to the topics that the writer reads, so the writer does not rely on
the gateway's checks; both parse envelopes with this module only.
"""

import re
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta

from shared.errors import BAD_ENVELOPE, UserError

Id = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9._:-]{1,128}\Z")]
EventName = Annotated[str, Meta(pattern=r"\A[a-z][a-z0-9_]{0,62}\Z")]
Moment = Annotated[datetime, Meta(tz=True)]
#: Without control characters: it is printed, and a terminal would execute escape codes.
Version = Annotated[str, Meta(pattern=r"\A[^\x00-\x1f\x7f-\x9f]{1,32}\Z")]


class Metadata(msgspec.Struct, frozen=True):
    """The identity of an event. Further keys are ignored here and preserved in the bytes on Kafka."""

    id: Id
    timestamp: Moment
    version: Version


class Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One event.  `payload` is a slice of the producer's own bytes, a JSON object.

    `pipeline_context` is empty unless the sender names destinations.
    """

    metadata: Metadata
    event_name: EventName
    payload: msgspec.Raw
    pipeline_context: msgspec.Raw = msgspec.Raw()


_Shape = TypeVar("_Shape", bound=msgspec.Struct)

_BRACE: Final = ord("{")
_DECODER: Final = msgspec.json.Decoder(Envelope)
#: Maximum shown characters of an unknown field's name, which the sender controls.
_MAX_LENGTH: Final = 200
_AT: Final = " - at `$"
#: A place in msgspec's format; other text at the end of its message is the name of a field.
_PATH: Final = re.compile(r"[A-Za-z_.\[\]]{0,100}`")


def parse(value: bytes | msgspec.Raw) -> Envelope:
    """Parse the envelope in `value`. Raises `UserError` with a JSON Pointer to the fault.

    Checks members and their types; `strict_json` checks that the bytes are strict JSON.
    """
    try:
        envelope = _DECODER.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        raise _as_user_error(e) from None
    if memoryview(envelope.payload)[0] != _BRACE:
        raise UserError(BAD_ENVELOPE, "Expected `object`", "/payload")
    if not MINYEAR < envelope.metadata.timestamp.year < MAXYEAR:
        as_utc(envelope.metadata.timestamp)
    return envelope


def as_utc(timestamp: datetime) -> datetime:
    """Return an event's timestamp in UTC. Raises `UserError` outside the years 1 to 9999 in UTC."""
    try:
        return timestamp.astimezone(UTC)
    except OverflowError:
        raise UserError(
            BAD_ENVELOPE, "the time in UTC is not within the years 1 to 9999", "/metadata/timestamp"
        ) from None


def decode(value: bytes | msgspec.Raw, shape: type[_Shape]) -> _Shape:
    """Decode `value` as a type other than the envelope. Raises the same `UserError` as `parse`."""
    try:
        return msgspec.json.decode(value, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        raise _as_user_error(e) from None


def _as_user_error(error: Exception) -> UserError:
    """Convert msgspec's error, which has the path as `$.metadata.id` and contains no values."""
    text, at, path = str(error).rpartition(_AT)
    if not at or not _PATH.fullmatch(path):
        return UserError(BAD_ENVELOPE, _shown(str(error)))
    return UserError(BAD_ENVELOPE, _shown(text), path[:-1].replace(".", "/").replace("[...]", "/*"))


def _shown(text: str) -> str:
    """Return the name of a sender's field, escaped and cut so that logs and databases can store it."""
    shown = text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}…`"
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown)
