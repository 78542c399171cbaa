"""Questions about many JSON values at once, joined into the array that one parse reads.

Each answers for all of them together and errs on the safe side: "surely not", or "look
closer".  They stand for `strict_json`'s looks at a single value, at a tenth of the price:
numpy compares the joined bytes, and a value is no longer visited on its own.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import orjson

from shared import strict_json

_Bytes = np.ndarray[Any, np.dtype[np.uint8]]

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

    Raises orjson's errors when they are not JSON.  Every value must be one JSON value to
    its end: else one could reach into its neighbour.
    """
    joined = b"[" + b",".join(values) + b"]"
    document: list[Any] = orjson.loads(joined)
    if len(document) != len(values):
        return None
    raw = np.frombuffer(joined, np.uint8)
    if _may_be_deep(raw, values) or _may_hold_wide_integer(joined, raw) or _may_hide_key(joined, raw):
        return None
    # Equal keys leave fewer marks in the document than in the bytes.
    written = np.frombuffer(orjson.dumps(document), np.uint8)
    return document if _marks(written) == _marks(raw) else None


def _marks(raw: _Bytes) -> int:
    """How many `":` there are: one after each key."""
    return int(np.count_nonzero((raw[:-1] == _QUOTE) & (raw[1:] == _COLON)))


def _may_be_deep(raw: _Bytes, values: Sequence[bytes]) -> bool:
    """Whether a value has more opening brackets than levels are allowed."""
    places = np.flatnonzero((raw | _BRACKET_BIT) == _OPEN)
    ends = np.cumsum([len(value) + 1 for value in values])
    counts = np.diff(np.searchsorted(places, ends, "right"), prepend=1)  # the first is the join's own
    return bool(counts.max(initial=0) > strict_json.MAX_DEPTH)


def _may_hold_wide_integer(joined: bytes, raw: _Bytes) -> bool:
    """Whether nineteen digits stand in a row, as in an integer that a float would round."""
    one = raw[::_STRIDE] - _ZERO < _TEN
    two = one[:-1] & one[1:]
    four = two[:-2] & two[2:]
    eight = four[:-4] & four[4:]
    return bool((eight[:-1] & one[8:]).any()) and strict_json.has_many_digits(joined)


def _may_hide_key(joined: bytes, raw: _Bytes) -> bool:
    """Whether a key may not be followed by `":`, or another `":` may come of an escape."""
    return bool(((raw[:-1] == _QUOTE) & (raw[1:] <= _SPACE)).any()) or strict_json.has_misleading_escape(
        joined
    )
