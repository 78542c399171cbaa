"""Counts the numbers of a payload that `multipleOf` with a fraction takes long to divide.

The validator divides 1e308 by 0.01 as integers of 310 digits: 50 to 150 µs, measured, for six bytes of JSON.
"""

from typing import Any, Final

#: Maximum of such numbers in one event: about half a second.
MAX_LONG: Final = 5_000
#: Bytes of the shortest one with its comma.
_BYTES: Final = 5
_LARGE: Final = 1e50
_SMALL: Final = 1e-50


def has_too_many_long_numbers(payload: Any, size: int) -> bool:
    """Return whether a payload of this size in bytes has more than `MAX_LONG`; takes 50 ns per value."""
    if size <= MAX_LONG * _BYTES:
        return False
    count = 0
    left = [payload]
    while left:
        value = left.pop()
        if isinstance(value, float):
            count += value != 0 and not _SMALL < abs(value) < _LARGE
        elif isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list):
            left += value
    return count > MAX_LONG
