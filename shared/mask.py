"""Masks an event: its shape without its values, which people may see by default.

Letters become `a` or `A`, digits `9`; other characters remain, to distinguish a decimal comma from a point.
Names of members remain, because they belong to the schema, and so does the name of the event. Values that an
event type marks as personal are hidden completely.
"""

import json
import re
from collections.abc import Collection, Iterable
from typing import Any, Final

import orjson

from shared.wire import EVENT_NAME

_MAX_LENGTH: Final = 64
_MAX_ITEMS: Final = 20
_DEEPEST: Final = 16
_UPPER: Final = re.compile(r"[^\W\d_a-z]")
_LOWER: Final = re.compile(r"[a-z]")
_DIGIT: Final = re.compile(r"\d")
_HIDDEN: Final = "***"
#: The places in an envelope and a packet that pointers of personal fields refer to.
_BODIES: Final = ("payload", "data")

#: The member of an envelope that is shown as it is, if the value is a name.
_NAME: Final = "event_name"

_Path = tuple[str, ...]


def masked(value: bytes | None, personal: Iterable[str] = ()) -> Any:
    """Return the event's document with every value as its shape; only the length if it is not JSON.

    `personal`: JSON Pointers into the payload.
    """
    try:
        document = orjson.loads(value or b"")
    except orjson.JSONDecodeError:
        return f"{len(value or b'')} bytes, no JSON"
    hidden = {(body, *pointer_tokens(pointer)) for pointer in personal for body in _BODIES}
    return _masked(document, (), hidden)


def masked_row(row: str, personal: Iterable[str] = ()) -> Any:
    """Return a row of a table, in Postgres' JSON, with every value as its shape.

    `personal`: JSON Pointers into the payload, whose first name is a column of a table of its own.
    """
    # Numbers as their text, because a float has fewer digits than a numeric.
    document = json.loads(row, parse_int=str, parse_float=str)
    paths = [pointer_tokens(pointer) for pointer in personal]
    hidden = {*paths, *((body, *path) for path in paths for body in _BODIES)}
    return _masked(document, (), hidden)


def shape(text: str) -> str:
    """Return the shape of a text, cut."""
    cut = text[:_MAX_LENGTH]
    plain = _DIGIT.sub("9", _UPPER.sub("A", _LOWER.sub("a", cut)))
    return plain + ("…" if len(text) > _MAX_LENGTH else "")


def pointer_tokens(pointer: str) -> _Path:
    """Return the names and indices of a JSON Pointer."""
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:])


def _masked(value: Any, path: _Path, hidden: Collection[_Path]) -> Any:
    if path in hidden:
        return _HIDDEN
    if isinstance(value, (dict, list)) and len(path) >= _DEEPEST:
        return "…"
    if isinstance(value, dict):
        items = list(value.items())[:_MAX_ITEMS]
        return {name: _masked(each, (*path, name), hidden) for name, each in items}
    if isinstance(value, list):
        return [_masked(each, (*path, str(n)), hidden) for n, each in enumerate(value[:_MAX_ITEMS])]
    return value if value is None or isinstance(value, bool) or _is_name(value, path) else _shape(value)


def _is_name(value: Any, path: _Path) -> bool:
    return path == (_NAME,) and isinstance(value, str) and EVENT_NAME.fullmatch(value) is not None


def _shape(value: Any) -> str:
    return shape(value if isinstance(value, str) else repr(value))
