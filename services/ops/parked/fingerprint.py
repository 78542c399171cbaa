"""The cause of a parked event, shared by events with the same fix, and its fingerprint.

It excludes fields that differ from event to event (version, time, the value itself).
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, NamedTuple

import orjson

from shared.errors import TRANSFORM_FAILED
from shared.mask import shape

#: Version of the fingerprint's fields; groups of older versions remain.
VERSION: Final = 1
#: Maximum number of groups, because clients choose event names, and with them causes.
MAX_GROUPS: Final = 10_000
_INDEX: Final = re.compile(r"(?<=/)\d+(?=/|$)")
_BODIES: Final = ("payload", "data")
_ABSENT: Final = "absent"
_NOTHING: Final = object()
#: Digits of an index of an array that fits into one event.
_LONGEST_INDEX: Final = 9
#: Maximum length of an indexed text in Postgres; foreign names may have any length.
_LONGEST_NAME: Final = 512


class Cause(NamedTuple):
    """The identity of a group of parked events; unknown fields are None."""

    step: str | None
    code: str | None
    sqlstate: str | None
    destination: str | None
    column: str | None
    #: The constraint, else the JSON Pointer with every index of an array as `*`; for a function that raised,
    #: the exception's type, function and line.
    place: str | None
    event_name: str | None
    #: The JSON type of the value at the column or pointer.
    json_type: str | None

    @property
    def fingerprint(self) -> bytes:
        """Return 16 bytes that are equal for equal causes, on any machine."""
        return _fingerprint(self)


@lru_cache(MAX_GROUPS)
def _fingerprint(cause: Cause) -> bytes:
    return sha256(orjson.dumps([VERSION, *cause])).digest()[:16]


#: The cause of events beyond the maximum number of groups.
OTHERS: Final = Cause(None, "others", None, None, None, None, None, None)


def cause_of(reason: Mapping[str, Any], value: bytes | None) -> Cause:
    """Return the cause of a parked event by its reason (`onramp-error`) and its bytes."""
    return cause_and_shape(reason, value)[0]


def cause_and_shape(reason: Mapping[str, Any], value: bytes | None) -> tuple[Cause, str | None]:
    """Return the cause, and the shape of the value at its column or pointer (`9,99`), if it has one."""
    told = {name: _text(reason.get(name)) for name in ("step", "code", "sqlstate", "destination")}
    column, constraint = _text(reason.get("column")), _text(reason.get("constraint"))
    pointer, name = _text(reason.get("pointer")), _text(reason.get("event_name"))
    document = _parsed(value) if column or pointer or not name else None
    name = name or _name_in(document)
    found = _value_at(document, reason, column, pointer or "") if column or pointer else None
    cause = Cause(
        **told | {"destination": _pattern(told["destination"])},
        column=column,
        place=_raised(reason) or constraint or _pattern(pointer),
        event_name=name and name[:_LONGEST_NAME],
        json_type=_type_of(found) if column or pointer else None,
    )
    return cause, _shape_of(found) if column or pointer else None


def _text(value: object) -> str | None:
    """Return a text that any database can store, or None if it is empty."""
    return value.replace("\0", "\\0") if isinstance(value, str) and value else None


def _raised(reason: Mapping[str, Any]) -> str | None:
    """Return the exception and its line; None for other errors, whose details differ from event to event."""
    return _text(reason.get("detail")) if reason.get("code") == TRANSFORM_FAILED.code else None


def _pattern(pointer: str | None) -> str | None:
    return _INDEX.sub("*", pointer) if pointer else None


def _parsed(value: bytes | None) -> object:
    try:
        return orjson.loads(value or b"")
    except orjson.JSONDecodeError:
        return None


def _name_in(document: object) -> str | None:
    name = document.get("event_name") if isinstance(document, dict) else None
    # The event could not be read; a name that no envelope may have is ignored.
    return name if isinstance(name, str) and name.isascii() and name.isidentifier() else None


def _value_at(document: object, reason: Mapping[str, Any], column: str | None, pointer: str) -> object:
    """Return the value at the column (a landing table's is a member of the event) or the pointer."""
    if not column:
        return _at(document, pointer)
    if not isinstance(document, dict):
        return _NOTHING
    bodies = [document] if reason.get("typed") is False else [document.get(name) for name in _BODIES]
    return next((b[column] for b in bodies if isinstance(b, dict) and column in b), _NOTHING)


def _at(document: object, pointer: str) -> object:
    found = document
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list):
            found = found[int(name)] if _is_index(name) and int(name) < len(found) else _NOTHING
        else:
            found = found.get(name, _NOTHING) if isinstance(found, dict) else _NOTHING
    return found


def _is_index(token: str) -> bool:
    return token.isascii() and token.isdecimal() and len(token) <= _LONGEST_INDEX


def _type_of(value: object) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    kinds = ((int, "integer"), (float, "number"), (str, "string"), (list, "array"), (dict, "object"))
    return next((name for kind, name in kinds if isinstance(value, kind)), _ABSENT)


def _shape_of(value: object) -> str:
    """Return the mask of a text or a number, else its type, which never equals a mask."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return shape(value if isinstance(value, str) else repr(value)).replace("\0", "\\0")
    return _type_of(value)
