"""The envelope: what producers send, checked once in the gateway and again in the writer.

Any Kafka client may write to the topics that the writer reads, so the writer trusts
nothing that the gateway has checked; both read envelopes by this module alone.
"""

import re
from datetime import datetime
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta

from shared.errors import BAD_ENVELOPE, UserError

Id = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9._:-]{1,128}\Z")]
EventName = Annotated[str, Meta(pattern=r"\A[a-z][a-z0-9_]{0,62}\Z")]
Moment = Annotated[datetime, Meta(tz=True)]
#: Without control characters: it is printed, and escape codes would be obeyed.
Version = Annotated[str, Meta(pattern=r"\A[^\x00-\x1f\x7f-\x9f]{1,32}\Z")]


class Metadata(msgspec.Struct, frozen=True):
    """Who the event is.  Further keys are kept in the bytes on Kafka."""

    id: Id
    timestamp: Moment
    version: Version


class Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One event.  `payload` is the producer's own slice of bytes, a JSON object.

    `pipeline_context` is empty unless the sender addresses destinations itself.
    """

    metadata: Metadata
    event_name: EventName
    payload: msgspec.Raw
    pipeline_context: msgspec.Raw = msgspec.Raw()


_Shape = TypeVar("_Shape", bound=msgspec.Struct)

_BRACE: Final = ord("{")
_DECODER: Final = msgspec.json.Decoder(Envelope)
_PLACE: Final = re.compile(r" - at `\$(?P<path>.*)`\Z")


def parse(value: bytes | msgspec.Raw) -> Envelope:
    """The envelope in `value`.  Raises `UserError` with a JSON Pointer to what is wrong.

    Checks shape and names; that the bytes are strict JSON is `strict_json`'s part.
    """
    try:
        envelope = _DECODER.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        raise _refusal(e) from None
    if memoryview(envelope.payload)[0] != _BRACE:
        raise UserError(BAD_ENVELOPE, "Expected `object`", "/payload")
    return envelope


def decode(value: bytes | msgspec.Raw, shape: type[_Shape]) -> _Shape:
    """`value` as another shape than the envelope's.  Raises the same `UserError` as `parse`."""
    try:
        return msgspec.json.decode(value, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        raise _refusal(e) from None


def _refusal(error: Exception) -> UserError:
    """The refusal in our words.  msgspec's messages name the place as `$.metadata.id` and hold no values."""
    text = str(error)
    place = _PLACE.search(text)
    if place is None:
        return UserError(BAD_ENVELOPE, text)
    pointer = place["path"].replace(".", "/").replace("[...]", "/*")
    return UserError(BAD_ENVELOPE, _PLACE.sub("", text), pointer)
