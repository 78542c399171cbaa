"""Questions about many JSON values at once, whose bytes stand one after the other.

Each answers for all of them together and errs on the safe side: "surely not", or "look
closer".  They stand for `strict_json`'s looks at a single value, at a tenth of the price:
numpy compares the joined bytes, and a value is only visited by its parser.  What seems to
stand across two values can only raise a suspicion.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa

from services.writer.model.arrow_bytes import joined, offsets
from shared import strict_json

_Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_Mask = np.ndarray[Any, np.dtype[np.bool_]]
#: One that is not surely strict costs so many a closer look.
_PART: Final = 1_024

_QUOTE: Final = ord('"')
_COLON: Final = ord(":")
_SPACE: Final = ord(" ")
#: Clears the bit in which `[` and `{` differ.
_BRACKET_BIT: Final = 0x20
_OPEN: Final = ord("{")
#: Nineteen digits in a row hold nine in a row of every second byte; times and UUIDs do not.
_STRIDE: Final = 2
_ZERO: Final = ord("0")
_TEN: Final = 10


def parse(values: Sequence[bytes]) -> list[Any] | None:
    """The documents of `values`, if each of them is surely strict JSON (see `strict_json`).

    Raises orjson's errors when one is not JSON.
    """
    documents = [orjson.loads(value) for value in values]
    ends = np.cumsum([len(value) for value in values])
    return documents if _are_strict(b"".join(values), ends, documents, strict_json.MAX_DEPTH) else None


def strict_objects(bodies: pa.BinaryArray) -> _Mask:
    """Which of `bodies`, each between braces, are surely strict JSON as a member of one object."""
    found = np.zeros(len(bodies), dtype=bool)
    for start in range(0, len(bodies), _PART):
        part = bodies.slice(start, _PART)
        at, documents = _parsed(part.to_pylist())
        if len(at) < len(part):
            part = part.take(pa.array(at, pa.int64()))
        at_bytes = offsets(part)
        ends = at_bytes[1:] - at_bytes[0]
        if _are_strict(bytes(joined(part)), ends, documents, strict_json.MAX_DEPTH - 1):
            found[start + np.array(at, dtype=int)] = True
    return found


def _parsed(values: Sequence[bytes]) -> tuple[Sequence[int], list[Any]]:
    """The places and documents of those of `values` that are JSON."""
    try:
        return range(len(values)), [orjson.loads(value) for value in values]
    except orjson.JSONDecodeError:
        at, documents = [], []
        for i, value in enumerate(values):
            with suppress(orjson.JSONDecodeError):
                documents.append(orjson.loads(value))
                at.append(i)
        return at, documents


def _are_strict(whole: bytes, ends: Any, documents: list[Any], depth: int) -> bool:
    """Whether `documents`, parsed from `whole` where each ends at one of `ends`, surely are strict."""
    raw = np.frombuffer(whole, np.uint8)
    if _may_be_deep(raw, ends, depth) or _may_hold_wide_integer(whole, raw) or _may_hide_key(whole, raw):
        return False
    # Equal keys leave fewer marks in the documents than in the bytes.
    written = np.frombuffer(orjson.dumps(documents), np.uint8)
    return _marks(written) == _marks(raw)


def _marks(raw: _Bytes) -> int:
    """How many `":` there are: one after each key."""
    return int(np.count_nonzero((raw[:-1] == _QUOTE) & (raw[1:] == _COLON)))


def _may_be_deep(raw: _Bytes, ends: Any, depth: int) -> bool:
    """Whether a value has more opening brackets than so many levels."""
    places = np.flatnonzero((raw | _BRACKET_BIT) == _OPEN)
    counts = np.diff(np.searchsorted(places, ends), prepend=0)
    return bool(counts.max(initial=0) > depth)


def _may_hold_wide_integer(whole: bytes, raw: _Bytes) -> bool:
    """Whether nineteen digits stand in a row, as in an integer that a float would round."""
    one = raw[::_STRIDE] - _ZERO < _TEN
    two = one[:-1] & one[1:]
    four = two[:-2] & two[2:]
    eight = four[:-4] & four[4:]
    return bool((eight[:-1] & one[8:]).any()) and strict_json.has_many_digits(whole)


def _may_hide_key(whole: bytes, raw: _Bytes) -> bool:
    """Whether a key may not be followed by `":`, or another `":` may come of an escape."""
    return bool(((raw[:-1] == _QUOTE) & (raw[1:] <= _SPACE)).any()) or strict_json.has_misleading_escape(
        whole
    )
