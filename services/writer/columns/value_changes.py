"""Finds values that a column would change without an error: floats and intervals.

A float column accepts a number if the stored value, written with as many digits as the number, equals
the number (true of 0.1 and 0.10000000000000001, false of 16777217 in a `real`).  A number may have no
more digits than are needed to distinguish all floats, because floats do not store further digits.
Postgres itself rejects a number beyond a type's range.
"""

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final

import numpy as np

from services.writer.columns.column_types import Type

_FLOATS: Final[dict[str, Any]] = {"float4": np.float32, "float8": np.float64}
#: Maximum characters of a text, without an exponent, that is always returned unchanged.
SAFE_LENGTH: Final = {"float4": 7, "float8": 15}
#: Significant digits that distinguish all values of the type (`%.17g` writes them).
_DIGITS: Final = {"float4": 9, "float8": 17}
#: Largest integer up to which every integer is stored exactly.
_INTEGERS: Final = {"float4": 1 << 24, "float8": 1 << 53}
#: A fraction and its unit.  A pattern that includes the digits before it would take quadratic time.
_FRACTION: Final = re.compile(r"[.,](?P<digits>\d+)\s*(?P<unit>[A-Za-zµ]*)", re.ASCII)
_SECONDS: Final = frozenset({"", "s", "sec", "secs", "second", "seconds"})
_EXPONENT: Final = re.compile(r"\d[eE][+-]?\d", re.ASCII)


def keeps_integers(of: Type, values: Iterable[int | None]) -> bool:
    """Return whether a column certainly stores all of `values` exactly."""
    if of.scale is not None and of.scale < 0:  # it stores tens or hundreds
        return False
    if of.unsigned_bits is not None:
        return all(v is None or 0 <= v < 1 << of.unsigned_bits for v in values)
    limit = _INTEGERS.get(of.float_name)
    return limit is None or all(v is None or -limit <= v <= limit for v in values)


def keeps_number(of: Type, text: str) -> bool:
    """Return whether the column returns the number `text` unchanged, or Postgres rejects it."""
    kind = _FLOATS.get(of.float_name)
    if kind is None or (len(text) <= SAFE_LENGTH[of.float_name] and "e" not in text.lower()):
        return True
    number = float(text)
    if kind is np.float64 and repr(number) == text:
        return True
    with np.errstate(over="ignore", under="ignore"):
        stored = kind(number)
    if not np.isfinite(stored) or stored == 0:
        return True  # zero, or out of range, which Postgres rejects
    shortest = np.format_float_scientific(stored, unique=True)
    if shortest == text or Decimal(shortest) == Decimal(text):
        return True  # next to a power of two the shortest text is not always the nearest of its length
    return _equals_text(float(stored), text, _DIGITS[of.float_name])


def _equals_text(stored: float, text: str, max_digits: int) -> bool:
    """Return whether `stored`, written with the number of significant digits of `text`, equals `text`.

    False if `text` has more than `max_digits` significant digits.
    """
    digits = len(text.lower().partition("e")[0].replace(".", "").strip("-0"))
    return digits <= max_digits and Decimal(f"{stored:.{digits - 1}e}") == Decimal(text)


def interval_loss(of: Type, text: str) -> str | None:
    """Return the reason why the column would lose a part of the interval `text`, or None."""
    if not of.keeps_seconds:
        return "the column drops fields finer than its own: declare it interval"
    if _EXPONENT.search(text):
        return "an interval may not have exponents"
    for match in _FRACTION.finditer(text):
        digits = match["digits"].rstrip("0")
        if digits and match["unit"].lower() not in _SECONDS:
            return "only seconds may have a fraction"
        if len(digits) > of.second_digits:
            return f"the column stores {of.second_digits} digits of a second; further digits would be lost"
    return None
