"""The lines of a file of events that is downloaded, edited with anything, and sent back.

A line is one event: which one it is, and its payload.  Only the payload is taken of what comes back; what
else a line says must be what is kept: an edit that meant another id or destination is refused.
"""

from typing import Any, Final, NamedTuple

import msgspec
import orjson

from services.ops.fixes import exact
from services.ops.fixes.payloads import payload_of
from shared.errors import BAD_EDITS, OnrampError, UserError

#: Of one line.
MAX_BYTES: Final = 16 << 20
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LAST_ID: Final = 2**63 - 1
#: JSON has them between values alone; a line has none.
_SPACES: Final = bytes.maketrans(b"\r\n", b"  ")


class Named(NamedTuple):
    """Which event a line is about, for whoever reads it."""

    event: int
    key: str
    event_id: str | None
    event_name: str | None


class Edit(NamedTuple):
    """What a line asks for: the payload's very bytes, and what it says of its event."""

    event: int
    said: dict[str, Any]
    payload: bytes


def line_of(named: Named, value: bytes | None, why: OnrampError | None = None) -> bytes:
    """Return an event's line; one whose payload nobody can edit says why not."""
    try:
        if why is not None:
            raise why
        payload = payload_of(value or b"").translate(_SPACES)
    except OnrampError as e:
        document = {**named._asdict(), "payload": None, "why": e.detail}
        return orjson.dumps(document) + b"\n"
    return orjson.dumps({**named._asdict(), "payload": orjson.Fragment(payload)}) + b"\n"


def edit_of(line: bytes) -> Edit:
    """Read a line.  Raises `UserError` BAD_EDITS, which says what is wrong with it and no value."""
    try:
        document = exact.loads(line)
        members = _MEMBERS.decode(line)
    except UserError as e:
        raise UserError(BAD_EDITS, e.detail) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UserError(BAD_EDITS, "it is no object as `onramp errors download` writes them") from None
    strange = sorted(members.keys() - {*Named._fields, "payload", "why"})
    if strange or not isinstance(document.get("event"), exact.Number):
        raise UserError(BAD_EDITS, "it has members that no line has, or no number of an event as `event`")
    number = document.pop("event").text
    if not number.isdecimal() or len(number) > len(str(_LAST_ID)) or not 0 < int(number) <= _LAST_ID:
        raise UserError(BAD_EDITS, "event: this is no event's number")
    if not isinstance(document.pop("payload", None), dict):
        raise UserError(BAD_EDITS, "payload: it is no object; leave out lines that shall not be edited")
    document.pop("why", None)
    return Edit(int(number), document, bytes(members["payload"]))


def require_same(edit: Edit, named: Named) -> None:
    """Raise `UserError` BAD_EDITS unless all that a line says of its event is what is kept."""
    kept = named._asdict()
    changed = [name for name, value in edit.said.items() if value != kept[name]]
    if changed:
        raise UserError(BAD_EDITS, f"{changed[0]}: only a payload can be edited, and this is another")
