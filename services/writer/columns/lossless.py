"""What a column would keep otherwise than it was given: floats, intervals, ranges of times.

A column of floats takes a number that it gives back: what is stored, written with as many digits
as were given, is the number that was given (0.1 and 0.10000000000000001 are, 16777217 in a `real`
is not).  No more digits than tell all floats apart: further ones say what no float holds.  What is
beyond a type's range Postgres refuses itself.
"""

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final

import numpy as np

from services.writer.columns.column_types import Type

_FLOATS: Final[dict[str, Any]] = {"float4": np.float32, "float8": np.float64}
#: So many signs without an exponent hold no more digits than are surely given back.
_SURE: Final = {"float4": 7, "float8": 15}
#: So many significant digits tell all of them apart, and `%.17g` writes them all.
_DIGITS: Final = {"float4": 9, "float8": 17}
#: Up to these every integer is kept.
_INTEGERS: Final = {"float4": 1 << 24, "float8": 1 << 53}
#: A number with a fraction, and the unit after it.
_FRACTION: Final = re.compile(r"\d*[.,](?P<digits>\d+)\s*(?P<unit>[A-Za-zµ]*)", re.ASCII)
_SECONDS: Final = frozenset({"", "s", "sec", "secs", "second", "seconds"})
_EXPONENT: Final = re.compile(r"\d[eE][+-]?\d", re.ASCII)
#: The finest that a time in a range keeps is a microsecond.
_TOO_FINE: Final = re.compile(r"\d\.\d{6}0*[1-9]", re.ASCII)


def keeps_integers(of: Type, values: Iterable[int | None]) -> bool:
    """Whether a column surely keeps all of these."""
    most = _INTEGERS.get(of.float_name)
    return most is None or all(v is None or -most <= v <= most for v in values)


def keeps_number(of: Type, text: str) -> bool:
    """Whether the column gives back the number `text`, or refuses it itself."""
    kind = _FLOATS.get(of.float_name)
    if kind is None or (len(text) <= _SURE[of.float_name] and "e" not in text.lower()):
        return True
    number = float(text)
    if kind is np.float64 and repr(number) == text:
        return True
    with np.errstate(over="ignore", under="ignore"):
        kept = kind(number)
    if not np.isfinite(kept) or kept == 0:
        return True  # zero, or out of range, which Postgres says
    shortest = np.format_float_scientific(kept, unique=True)
    if shortest == text or Decimal(shortest) == Decimal(text):
        return True  # beside a power of two the shortest text is not always the nearest of its length
    return _is_spelled(float(kept), text, _DIGITS[of.float_name])


def _is_spelled(kept: float, text: str, most: int) -> bool:
    """Whether `text` is `kept` with as many significant digits as it has, at `most` so many."""
    digits = len(text.lower().partition("e")[0].replace(".", "").strip("-0"))
    return digits <= most and Decimal(f"{kept:.{digits - 1}e}") == Decimal(text)


def interval_loss(of: Type, text: str) -> str | None:
    """What the column would drop of the interval `text`, if anything."""
    if not of.keeps_seconds:
        return "the column drops what is finer than its fields: declare it interval"
    if _EXPONENT.search(text):
        return "an interval is given without exponents"
    for found in _FRACTION.finditer(text):
        digits = found["digits"].rstrip("0")
        if digits and found["unit"].lower() not in _SECONDS:
            return "only seconds have a fraction that is kept"
        if len(digits) > of.second_digits:
            return f"the column keeps {of.second_digits} digits of a second, and more would be lost"
    return None


def is_too_fine(of: Type, text: str) -> bool:
    """Whether a range of times has a bound that would be rounded."""
    return of.name.startswith("ts") and _TOO_FINE.search(text) is not None
