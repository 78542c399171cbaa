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

_ID: Final = r"\A[A-Za-z0-9._:-]{1,128}\Z"
_EVENT_NAME: Final = r"\A[a-z][a-z0-9_]{0,62}\Z"
#: Without control characters: it is printed, and a terminal would execute escape codes.
_VERSION: Final = r"\A[^\x00-\x1f\x7f-\x9f]{1,32}\Z"
Id = Annotated[str, Meta(pattern=_ID)]
EventName = Annotated[str, Meta(pattern=_EVENT_NAME)]
Moment = Annotated[datetime, Meta(tz=True)]
Version = Annotated[str, Meta(pattern=_VERSION)]


class Metadata(msgspec.Struct, frozen=True, gc=False):
    """The identity of an event. Further keys are ignored here and preserved in the bytes on Kafka."""

    id: str
    timestamp: Moment
    version: str


class Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One event.  `payload` is a slice of the producer's own bytes, a JSON object.

    `pipeline_context` is empty unless the sender names destinations.
    """

    metadata: Metadata
    event_name: str
    payload: msgspec.Raw
    pipeline_context: msgspec.Raw = msgspec.Raw()


class _StrictMetadata(Metadata, frozen=True, gc=False):
    id: Id
    version: Version


class _StrictEnvelope(Envelope, frozen=True, forbid_unknown_fields=True, gc=False):
    """The envelope with all checks in msgspec, which explains a fault, and takes three times as long."""

    metadata: _StrictMetadata
    event_name: EventName


_Shape = TypeVar("_Shape", bound=msgspec.Struct)

_BRACE: Final = ord("{")
_DECODER: Final = msgspec.json.Decoder(Envelope)
_STRICT_DECODER: Final = msgspec.json.Decoder(_StrictEnvelope)
_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_is_id: Final = re.compile(_ID).match
_is_event_name: Final = re.compile(_EVENT_NAME).match
_is_version: Final = re.compile(_VERSION).match
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
    except _ERRORS as e:
        raise _fault_of(value, e) from None
    metadata = envelope.metadata
    if not (_is_id(metadata.id) and _is_version(metadata.version) and _is_event_name(envelope.event_name)):
        raise _fault_of(value)
    if memoryview(envelope.payload)[0] != _BRACE:
        raise UserError(BAD_ENVELOPE, "Expected `object`", "/payload")
    if not MINYEAR < metadata.timestamp.year < MAXYEAR:
        as_utc(metadata.timestamp)
    return envelope


def _fault_of(value: bytes | msgspec.Raw, error: Exception | None = None) -> UserError:
    """Return the first fault in `value`, which is no envelope."""
    try:
        _STRICT_DECODER.decode(value)
    except _ERRORS as e:
        return _as_user_error(e)
    return _as_user_error(error or ValueError("not an envelope"))


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
    except _ERRORS as e:
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
