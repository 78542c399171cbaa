"""Checks that a document is plain JSON of bounded size, before any code walks through it.

YAML has more than JSON: keys that are not text, dates, and aliases, with which a line of ten characters
unfolds to gigabytes, or to itself.
"""

import json
from typing import Any, Final

MAX_DEPTH: Final = 100
MAX_VALUES: Final = 200_000
#: JSON's numbers are unbounded; those of the formats that carry a registry are not.
_MAX_INTEGER: Final = 2**64 - 1
_MIN_INTEGER: Final = -(2**63)


def fault_of(document: object) -> str | None:
    """Return why `document` is not plain JSON of a usual size; None if it is. Its time is bounded."""
    level, count = [document], 0
    for _ in range(MAX_DEPTH):
        inner: list[object] = []
        for value in level:
            if reason := _fault_of_one(value):
                return reason
            parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
            count += len(parts)
            if count > MAX_VALUES:
                return f"it has more than {MAX_VALUES:,} values, aliases counted as what they stand for"
            inner.extend(parts)
        if not inner:
            return None
        level = inner
    return f"it is nested deeper than {MAX_DEPTH} levels"


def _fault_of_one(value: object) -> str | None:
    if isinstance(value, dict):
        strange = next((key for key in value if not isinstance(key, str)), None)
        return (
            None if strange is None else f"a key is not text but {type(strange).__name__}: put it in quotes"
        )
    if isinstance(value, int) and not _MIN_INTEGER <= value <= _MAX_INTEGER:
        return "a whole number has more than 64 bits"
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):  # noqa: PLR0124 - NaN
        return "a number is infinite or none"
    if value is None or isinstance(value, bool | int | float | str | list):
        return None
    return f"a value is no JSON but {type(value).__name__}: put it in quotes"


def text_of(value: Any) -> str:
    """Return the canonical text of a JSON value: equal for any order of keys; `true` differs from 1."""
    return json.dumps(value, sort_keys=True)
