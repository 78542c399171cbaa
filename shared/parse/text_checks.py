"""Matches columns of envelopes' texts against patterns that are stricter than the envelope's contract.

A text that does not match may still be valid: the value takes the slow path, where `shared.envelope` decides.
"""

import re
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

#: Minimum texts to match by Arrow, which compiles the pattern in each call: some hundred matches in Python.
_FEW: Final = 200
ID: Final = r"^[A-Za-z0-9._:-]{1,128}$"
NAME: Final = r"^[a-z][a-z0-9_]{0,62}$"
VERSION: Final = r"^[^\x00-\x1f\x7f-\x9f]{1,32}$"
#: `VERSION` for the bytes between quotes in JSON: no character is an escape or needs one.
PLAIN_VERSION: Final = r'^[^\\"\x00-\x1f\x7f-\x9f]{1,32}$'
#: RFC 3339 with the years 1000 to 2999; other spellings and centuries take the slow path.
TIME: Final = (
    r"^[12]\d{3}-\d{2}-\d{2}T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$"
)
TIMESTAMP: Final = pa.timestamp("us", "UTC")


def matches_patterns(
    ids: pa.Array, times: pa.Array, versions: pa.Array, names: pa.Array, *, version: str = VERSION
) -> pa.Array:
    """Return which envelopes match all four patterns (a boolean array, null where a text is null)."""
    return pc.and_(
        pc.and_(match(ids, ID), match(times, TIME)),
        # Few distinct names and versions occur in many envelopes.
        pc.and_(match_distinct(names, NAME), match_distinct(versions, version)),
    )


def match(texts: pa.Array, pattern: str) -> pa.Array:
    """Return which of `texts` match `pattern` as a whole."""
    if len(texts) < _FEW:
        fullmatch = re.compile(pattern, re.ASCII).fullmatch  # Python caches compiled patterns
        return pa.array([fullmatch(text) is not None for text in texts.to_pylist()], pa.bool_())
    return pc.match_substring_regex(texts, pattern)


def match_distinct(texts: pa.Array, pattern: str) -> pa.Array:
    """Return the result of `match`, computed once for each distinct text."""
    encoded = texts.dictionary_encode()
    return match(encoded.dictionary, pattern).take(encoded.indices)


def as_times(texts: pa.Array) -> pa.Array:
    """Return `texts`, which match `TIME`, as times.  Raise `pa.ArrowInvalid` for a date like 30 February."""
    return texts.cast(TIMESTAMP)
