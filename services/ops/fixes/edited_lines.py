"""The lines of a file of events that is downloaded, edited with any tool, and uploaded.

A line is one event: its identity and its payload.  An upload changes only payloads; all other members of a
line must equal the stored ones, and an edit of an id or destination is refused.
"""

from typing import Any, Final, NamedTuple

import msgspec
import orjson

from services.ops.fixes import exact
from services.ops.fixes.payloads import payload_of
from shared.errors import BAD_EDITS, OnrampError, UserError

#: Maximum bytes of one line.
MAX_BYTES: Final = 16 << 20
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LAST_ID: Final = 2**63 - 1
#: Line breaks, which JSON allows only between values, become spaces.
_SPACES: Final = bytes.maketrans(b"\r\n", b"  ")


class Named(NamedTuple):
    """The event of a line, for human readers."""

    event: int
    key: str
    event_id: str | None
    event_name: str | None


class Edit(NamedTuple):
    """The edit of a line: the payload's bytes, and the line's members about its event."""

    event: int
    said: dict[str, Any]
    payload: bytes


def line_of(named: Named, value: bytes | None, why: OnrampError | None = None) -> bytes:
    """Return an event's line; without an editable payload, the line has the reason."""
    try:
        if why is not None:
            raise why
        payload = payload_of(value or b"").translate(_SPACES)
    except OnrampError as e:
        document = {**named._asdict(), "payload": None, "why": e.detail}
        return orjson.dumps(document) + b"\n"
    return orjson.dumps({**named._asdict(), "payload": orjson.Fragment(payload)}) + b"\n"


def edit_of(line: bytes) -> Edit:
    """Parse a line.  Raises `UserError` BAD_EDITS without any value."""
    try:
        document = exact.loads(line)
        members = _MEMBERS.decode(line)
    except UserError as e:
        raise UserError(BAD_EDITS, e.detail) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UserError(
            BAD_EDITS, "the line is not an object as `onramp errors download` writes it"
        ) from None
    strange = sorted(members.keys() - {*Named._fields, "payload", "why"})
    if strange or not isinstance(document.get("event"), exact.Number):
        raise UserError(BAD_EDITS, "it has members that no line has, or no number of an event as `event`")
    number = document.pop("event").text
    if not number.isdecimal() or len(number) > len(str(_LAST_ID)) or not 0 < int(number) <= _LAST_ID:
        raise UserError(BAD_EDITS, "event: not an event's number")
    if not isinstance(document.pop("payload", None), dict):
        raise UserError(BAD_EDITS, "payload: not an object; remove lines that are not to be edited")
    document.pop("why", None)
    return Edit(int(number), document, bytes(members["payload"]))


def require_same(edit: Edit, named: Named) -> None:
    """Raise `UserError` BAD_EDITS unless the line's members about its event equal the stored ones."""
    kept = named._asdict()
    changed = [name for name, value in edit.said.items() if value != kept[name]]
    if changed:
        raise UserError(BAD_EDITS, f"{changed[0]}: only a payload can be edited, and this is another")
