"""Checks whether many JSON values are strict, at once over their joined bytes.

Each check has one result for all values and errs on the safe side: "certainly strict", or
"check each value".  The checks replace `strict_json`'s checks of a single value at a tenth of the cost:
numpy compares the joined bytes, and only orjson visits each value.  A match that spans two neighbouring
values can only cause a closer check, never a wrong "strict".
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa

from shared import strict_json
from shared.kafka_read.arrow_bytes import joined, offsets

_Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_Mask = np.ndarray[Any, np.dtype[np.bool_]]
#: Values of one check; a value that may not be strict sends the whole part to the slow path.
_PART: Final = 1_024

_QUOTE: Final = ord('"')
_COLON: Final = ord(":")
_SPACE: Final = ord(" ")
#: Clears the bit in which `[` and `{` differ.
_BRACKET_BIT: Final = 0x20
_OPEN: Final = ord("{")
#: Bytes between compared digits: 19 digits in a row are 9 at every second byte; times and UUIDs have fewer.
_STRIDE: Final = 2
_ZERO: Final = ord("0")
_TEN: Final = 10


def parse(values: Sequence[bytes]) -> list[Any] | None:
    """Parse `values`; return None unless each value is certainly strict JSON (see `strict_json`).

    Raise `orjson.JSONDecodeError` if a value is not JSON.
    """
    documents = [orjson.loads(value) for value in values]
    ends = np.cumsum([len(value) for value in values])
    return documents if _are_strict(b"".join(values), ends, documents, strict_json.MAX_DEPTH) else None


def strict_objects(bodies: pa.BinaryArray) -> _Mask:
    """Return which of `bodies` are certainly strict JSON as a member of one object (one level deeper).

    Each body begins and ends with a brace.
    """
    strict = np.zeros(len(bodies), dtype=bool)
    for start in range(0, len(bodies), _PART):
        part = bodies.slice(start, _PART)
        parsed, documents = _parsed(part.to_pylist())
        if len(parsed) < len(part):
            part = part.take(pa.array(parsed, pa.int64()))
        byte_offsets = offsets(part)
        ends = byte_offsets[1:] - byte_offsets[0]
        if _are_strict(bytes(joined(part)), ends, documents, strict_json.MAX_DEPTH - 1):
            strict[start + np.array(parsed, dtype=int)] = True
    return strict


def _parsed(values: Sequence[bytes]) -> tuple[Sequence[int], list[Any]]:
    """Return the indices and the documents of those `values` that are JSON."""
    try:
        return range(len(values)), [orjson.loads(value) for value in values]
    except orjson.JSONDecodeError:
        parsed, documents = [], []
        for i, value in enumerate(values):
            with suppress(orjson.JSONDecodeError):
                documents.append(orjson.loads(value))
                parsed.append(i)
        return parsed, documents


def _are_strict(whole: bytes, ends: Any, documents: list[Any], depth: int) -> bool:
    """Return whether `documents`, parsed from `whole` and ending at `ends`, are certainly strict."""
    raw = np.frombuffer(whole, np.uint8)
    if _may_be_deep(raw, ends, depth) or _may_hold_wide_integer(whole, raw) or _may_hide_key(whole, raw):
        return False
    # orjson drops one of two equal keys, so a re-serialized document has fewer key marks than its bytes.
    written = np.frombuffer(orjson.dumps(documents), np.uint8)
    return _marks(written) == _marks(raw)


def _marks(raw: _Bytes) -> int:
    """Return the number of `":`, which follows each key."""
    return int(np.count_nonzero((raw[:-1] == _QUOTE) & (raw[1:] == _COLON)))


def _may_be_deep(raw: _Bytes, ends: Any, depth: int) -> bool:
    """Return whether a value has more than `depth` opening brackets, an upper bound of its levels."""
    brackets = np.flatnonzero((raw | _BRACKET_BIT) == _OPEN)
    counts = np.diff(np.searchsorted(brackets, ends), prepend=0)
    return bool(counts.max(initial=0) > depth)


def _may_hold_wide_integer(whole: bytes, raw: _Bytes) -> bool:
    """Return whether a run of 19 digits exists, as in an integer that a float would round."""
    one = raw[::_STRIDE] - _ZERO < _TEN
    two = one[:-1] & one[1:]
    four = two[:-2] & two[2:]
    eight = four[:-4] & four[4:]
    return bool((eight[:-1] & one[8:]).any()) and strict_json.has_many_digits(whole)


def _may_hide_key(whole: bytes, raw: _Bytes) -> bool:
    """Return whether a key may have space before its colon, or an escape may become another `":`."""
    return bool(((raw[:-1] == _QUOTE) & (raw[1:] <= _SPACE)).any()) or strict_json.has_misleading_escape(
        whole
    )
