"""The shape of an event without its values: what people may see of payloads unasked.

Letters become `a` or `A`, digits `9`; other characters stay, for they tell a decimal comma from a point.
Names of members stay, they are the schema's.
"""

import re
from typing import Any, Final

import orjson

_LONGEST: Final = 64
_MOST_ITEMS: Final = 20
_DEEPEST: Final = 16
_UPPER: Final = re.compile(r"[^\W\d_a-z]")
_LOWER: Final = re.compile(r"[a-z]")
_DIGIT: Final = re.compile(r"\d")


def masked(value: bytes | None) -> Any:
    """Return the event's document with every value as its shape; of what is no JSON only its length."""
    try:
        document = orjson.loads(value or b"")
    except orjson.JSONDecodeError:
        return f"{len(value or b'')} bytes, no JSON"
    return _masked(document, 0)


def shape(text: str) -> str:
    """Return what a text looks like, cut."""
    cut = text[:_LONGEST]
    plain = _DIGIT.sub("9", _UPPER.sub("A", _LOWER.sub("a", cut)))
    return plain + ("…" if len(text) > _LONGEST else "")


def _masked(value: Any, depth: int) -> Any:
    if isinstance(value, (dict, list)) and depth >= _DEEPEST:
        return "…"
    if isinstance(value, dict):
        return {name: _masked(each, depth + 1) for name, each in list(value.items())[:_MOST_ITEMS]}
    if isinstance(value, list):
        return [_masked(each, depth + 1) for each in value[:_MOST_ITEMS]]
    if value is None or isinstance(value, bool):
        return value
    return shape(value if isinstance(value, str) else repr(value))
