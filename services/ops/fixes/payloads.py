"""Extracts and replaces the payload in an event's bytes.

All other members remain byte for byte: an edit cannot change id, name, time or destinations.
"""

from hashlib import sha256
from typing import Any, Final, NamedTuple

import msgspec

from services.ops.fixes import exact
from services.ops.fixes.steps import MAX_BYTES, Fix
from shared import strict_json
from shared.errors import BAD_EDITS, FIX_DOES_NOT_APPLY, OnrampError, UserError

#: The payload's member in an envelope, and in a packet.
_BODIES: Final = ("payload", "data")
_PREFIX: Final = "the fix does not apply: "
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Edited(NamedTuple):
    """An event's bytes to land, and their digest."""

    value: bytes
    sha256: bytes


def fixed(value: bytes, fix: Fix) -> Edited:
    """Apply `fix` to the payload of an event.  Raises `UserError` FIX_DOES_NOT_APPLY, without any value."""
    try:
        document = exact.loads(value)
        body, most = _body_of(document), fix.max_bytes(len(value))
        fix.apply(document[body], most)
        return _with_body(value, body, exact.dumps(document[body]), most)
    except UserError as e:
        if e.fault is FIX_DOES_NOT_APPLY:
            raise
        raise _inapplicable(e.detail) from None
    except RecursionError:
        raise _inapplicable("the event is nested too deep") from None


def payload_of(value: bytes) -> bytes:
    """Return the bytes of an event's payload.  Raises `UserError` unless the payload is an object."""
    try:
        return bytes(_MEMBERS.decode(value)[_body_of(exact.loads(value))])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _inapplicable("the event is not JSON") from None
    except UserError as e:
        raise UserError(BAD_EDITS, e.detail.removeprefix(_PREFIX)) from None


def edited(value: bytes, payload: bytes) -> Edited:
    """Return an event with these bytes as its payload.  Raises `UserError` BAD_EDITS, without any value."""
    try:
        return _with_body(value, _body_of(exact.loads(value)), payload)
    except UserError as e:
        raise UserError(BAD_EDITS, e.detail.removeprefix(_PREFIX)) from None
    except RecursionError:
        raise UserError(BAD_EDITS, "the event is nested too deep") from None


def _body_of(document: Any) -> str:
    """Return the name of the editable member.  Raises `UserError`."""
    found = [name for name in _BODIES if isinstance(document, dict) and isinstance(document.get(name), dict)]
    if len(found) != 1:
        raise _inapplicable("the event has no payload that is an object")
    return found[0]


def _with_body(value: bytes, body: str, edited: bytes, max_bytes: int = MAX_BYTES) -> Edited:
    """Return the event with another payload, if it is valid.  Raises `UserError`."""
    try:
        members = _MEMBERS.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _inapplicable("the event is not JSON") from None
    parts = (
        exact.dumps(name) + b":" + (edited if name == body else bytes(member))
        for name, member in members.items()
    )
    whole = b"{" + b",".join(parts) + b"}"
    if len(whole) > max_bytes:
        raise _inapplicable(f"the event would have more than {max_bytes:,} bytes")
    strict_json.check_depth(whole, strict_json.loads(whole))
    return Edited(whole, sha256(whole).digest())


def _inapplicable(why: str) -> OnrampError:
    return UserError(FIX_DOES_NOT_APPLY, f"{_PREFIX}{why}")
