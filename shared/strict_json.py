"""Parses strict JSON: a document that two parsers could read differently is rejected.

orjson is the parser; it already rejects NaN, infinities, lone surrogates, invalid UTF-8
and a byte order mark.  It keeps the last of two equal keys and turns a 23-digit integer
into a float without an error, so the bytes are checked for these two first. The check may
give false positives and costs a third of the parse: only a suspected document is parsed again,
exactly, by the standard library.
"""

import json
from collections.abc import Iterable
from typing import Final, NoReturn

import orjson

from shared.errors import BAD_JSON, BIG_INTEGER, DUPLICATE_KEY, TOO_DEEP, UserError

#: Maximum levels of objects and arrays of an event.
MAX_DEPTH: Final = 64
_Container = dict[str, object] | list[object]
_MIN_INTEGER: Final = -(2**63)
_MAX_INTEGER: Final = 2**64 - 1
#: Every integer in range has at most twenty digits and a sign; int() is slow far above.
_MAX_LENGTH: Final = 21
_FEW_DIGITS: Final = 19

#: Maps digits to 0 and all else to a space: finding nineteen consecutive zeros in the result is eight
#: times as fast as a regular expression, and they may be an integer out of range.
_DIGITS: Final = bytes(ord("0") if chr(byte) in "0123456789" else ord(" ") for byte in range(256))
_MANY_DIGITS: Final = b"0" * 19
#: An escaped quote or colon becomes, when reserialized, a `":` that follows no key.
_ESCAPES: Final = (b"\\u0022", b"\\u003a", b"\\u003A")
#: Space before a colon would hide a key from the count of `":`.  It is removed everywhere, also inside
#: strings, which can only raise the count and so is safe.
_SPACE: Final = b" \t\r\n"


def loads(body: bytes) -> object:
    """Parse `body`, one JSON document. Raises `UserError` with the reason of the rejection.

    `check_depth` checks the depth separately, because a batch is one document and
    the limit is per event.
    """
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as e:
        if "depth limit" in e.msg:  # orjson's own limit is far above ours
            raise _too_deep() from None
        raise UserError(BAD_JSON, f"{e.msg} (line {e.lineno}, column {e.colno})") from None
    if not _is_strict(body, document):
        _parse_exactly(body)
    return document


def check_depth(body: bytes, document: object) -> None:
    """Raise `UserError` (TOO_DEEP) for a document nested deeper than `MAX_DEPTH`.

    `body` are the bytes that `document` was parsed from: if they have no more opening brackets
    than the limit, the document cannot be too deep and is not walked.
    """
    if body.count(b"{") + body.count(b"[") <= MAX_DEPTH:
        return
    level = _containers([document])
    for _ in range(MAX_DEPTH):
        level = _containers(child for parent in level for child in _children(parent))
        if not level:
            return
    raise _too_deep()


def _too_deep() -> UserError:
    return UserError(TOO_DEEP, f"the event is nested deeper than {MAX_DEPTH} levels")


def _containers(values: Iterable[object]) -> list[_Container]:
    return [value for value in values if isinstance(value, (dict, list))]


def _children(container: _Container) -> Iterable[object]:
    return container.values() if isinstance(container, dict) else container


def _is_strict(body: bytes, document: object) -> bool:
    """Return whether certainly no key is repeated and no integer is out of range.

    Every parsed key is followed by `":` in the bytes, so more such marks in `body`
    than in the reserialized document mean that a key may have been dropped.
    """
    if has_many_digits(body) or has_misleading_escape(body):
        return False
    try:
        return orjson.dumps(document).count(b'":') == body.translate(None, _SPACE).count(b'":')
    except orjson.JSONEncodeError:  # deeper than orjson can write; check_depth decides
        return False


def has_many_digits(body: bytes) -> bool:
    """Return whether `body` has as many consecutive digits as an integer out of range."""
    return _MANY_DIGITS in body.translate(_DIGITS)


def has_misleading_escape(body: bytes) -> bool:
    """Return whether an escape of `body` becomes a quote or a colon when reserialized."""
    return b"\\" in body and any(escape in body for escape in _ESCAPES)


def _parse_exactly(body: bytes) -> None:
    try:
        _EXACT.decode(body.decode())
    except RecursionError:
        raise _too_deep() from None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise UserError(DUPLICATE_KEY, f"the key {_first_repeated(pairs)!r:.70} occurs twice in one object")
    return members


def _first_repeated(pairs: list[tuple[str, object]]) -> str:
    keys: set[str] = set()
    return next(key for key, _ in pairs if key in keys or keys.add(key))  # type: ignore[func-returns-value]


def _integer(digits: str) -> int:
    if len(digits) < _FEW_DIGITS:
        return int(digits)
    if len(digits) > _MAX_LENGTH or not _MIN_INTEGER <= int(digits) <= _MAX_INTEGER:
        raise UserError(BIG_INTEGER, f"an integer of {len(digits.lstrip('-'))} digits would lose some")
    return int(digits)


def _constant(name: str) -> NoReturn:
    raise UserError(BAD_JSON, f"{name} is not JSON")


_EXACT: Final = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=_integer, parse_constant=_constant, strict=False
)
