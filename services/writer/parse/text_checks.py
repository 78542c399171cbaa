"""Whether an envelope's texts are in the usual form: columns of them against patterns.

What is not goes the slow way, where the contracts' own words decide.
"""

import re
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

#: Arrow compiles a pattern anew in each call, which costs as much as some hundred matches in Python.
_FEW: Final = 200
ID: Final = r"^[A-Za-z0-9._:-]{1,128}$"
NAME: Final = r"^[a-z][a-z0-9_]{0,62}$"
VERSION: Final = r"^[^\x00-\x1f\x7f-\x9f]{1,32}$"
#: The same as it stands between quotes in JSON, if nothing in it is an escape or has to be one.
PLAIN_VERSION: Final = r'^[^\\"\x00-\x1f\x7f-\x9f]{1,32}$'
#: The usual RFC 3339; other spellings and centuries go the slow way.
TIME: Final = (
    r"^[12]\d{3}-\d{2}-\d{2}T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$"
)
TIMESTAMP: Final = pa.timestamp("us", "UTC")


def usual(
    ids: pa.Array, times: pa.Array, versions: pa.Array, names: pa.Array, *, version: str = VERSION
) -> pa.Array:
    """Which of the envelopes with these texts have all of them in the usual form."""
    return pc.and_(
        pc.and_(match(ids, ID), match(times, TIME)),
        # Few names and versions stand in many envelopes.
        pc.and_(match_distinct(names, NAME), match_distinct(versions, version)),
    )


def match(texts: pa.Array, pattern: str) -> pa.Array:
    """Which of `texts` match `pattern` as a whole."""
    if len(texts) < _FEW:
        fits = re.compile(pattern, re.ASCII).fullmatch  # Python keeps what it has compiled
        return pa.array([fits(text) is not None for text in texts.to_pylist()], pa.bool_())
    return pc.match_substring_regex(texts, pattern)


def match_distinct(texts: pa.Array, pattern: str) -> pa.Array:
    """`match`, asked once for each distinct text."""
    encoded = texts.dictionary_encode()
    return match(encoded.dictionary, pattern).take(encoded.indices)


def as_times(texts: pa.Array) -> pa.Array:
    """`texts` that match `TIME` as timestamps.  Raises `pa.ArrowInvalid`: a day that no calendar has."""
    return texts.cast(TIMESTAMP)
