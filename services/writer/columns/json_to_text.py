r"""Converts JSON values to the text that the input function of their column's type parses.

The conversion handles one column at a time.  A value that the column's kind does not accept is rejected
with the SQLSTATE that an equally strict Postgres would report.

The rules:

- null becomes NULL.
- Text accepts strings.
- Numbers accept numbers, and strings that are JSON numbers.  Integers accept 1.0 and 1e3.  Floats
  accept numbers that they return unchanged.  `money` accepts no value.
- Booleans accept true and false.
- json and jsonb accept any value, byte for byte.
- Arrays accept arrays.
- bytea accepts `\\x…` hex.
- Times are RFC 3339: `timestamptz` needs an offset, `timestamp` accepts no offset but Z.
- Ranges accept strings whose bounds are valid values.
- All other types accept a string in their own format.
"""

import re
from collections.abc import Callable, Sequence
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from typing import Any, Final

import msgspec
import orjson

from services.writer.columns import value_changes
from services.writer.columns.column_types import Kind, Type
from services.writer.columns.range_bounds import bounds_of

_NUMBER: Final = re.compile(
    r"-?(?P<whole>0|[1-9]\d*)(\.(?P<fraction>\d+))?([eE](?P<sign>[+-]?)(?P<exponent>\d+))?", re.ASCII
)
#: An exponent with more digits is beyond the range of every column.
_EXPONENT_DIGITS: Final = 9
#: Maximum digits of a number of any integer type.
_INTEGER_DIGITS: Final = 20
_FRACTION: Final = r"(?:\.(?P<fraction>\d+))?"
_CLOCK: Final = rf"([01]\d|2[0-3]):[0-5]\d:[0-5]\d{_FRACTION}"
_OFFSET: Final = r"(?:[Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)"
_YEAR: Final = r"\d{4,}"
_DAY: Final = rf"(?P<year>{_YEAR})-\d\d-\d\d"
_TIMES: Final = {
    Kind.TIMESTAMPTZ: re.compile(rf"{_DAY}[Tt ]{_CLOCK}{_OFFSET}", re.ASCII),
    Kind.TIMESTAMP: re.compile(rf"{_DAY}[Tt ]{_CLOCK}[Zz]?", re.ASCII),
    Kind.DATE: re.compile(_DAY, re.ASCII),
    Kind.TIME: re.compile(_CLOCK, re.ASCII),
    Kind.TIMETZ: re.compile(_CLOCK + _OFFSET, re.ASCII),
}
_YEAR_DIGITS: Final = 4
#: Years that are within 1 to 9999 in UTC, whatever the offset.
_INNER_YEAR: Final = r"(?:[1-8]\d{3}|9[0-8]\d{2})"
#: A time with an offset of hours only, as Postgres writes times in a range.
_HOURS: Final = re.compile(r":\d\d(\.\d+)?[+-]\d\d\Z", re.ASCII)
_INFINITE: Final = re.compile("inf", re.IGNORECASE)
_NAMES: Final = {str: "a string", bool: "a boolean", dict: "an object", list: "an array"}
_MISMATCH: Final = "42804"
_BAD_TEXT: Final = "22P02"

Texts = list[str | None]


class MisfitError(Exception):
    """A column does not accept a value.  The error never contains the value."""

    def __init__(self, sqlstate: str, reason: str) -> None:
        super().__init__(reason)
        self.sqlstate = sqlstate
        self.reason = reason


def as_texts(of: Type, raws: Sequence[msgspec.Raw | bytes]) -> tuple[Texts, dict[int, MisfitError]]:
    """Convert `raws` (one JSON value each) for a column of type `of`; return texts, and errors by index.

    JSON null, and a value with an error, becomes None.  Costs one parse of all values, and a check of each
    value unless the column accepts every value of the values' type.
    """
    values = orjson.loads(b"[" + b",".join(raws) + b"]")
    kinds = set(map(type, values)) - {type(None)}
    if of.kind is Kind.JSON:
        return [None if v is None else _text(raw) for v, raw in zip(values, raws, strict=True)], {}
    if of.kind is Kind.TEXT and kinds <= {str} and of.longest is None and of.longest_bytes is None:
        return values, {}
    if of.kind is Kind.NUMBER and kinds <= {int} and value_changes.keeps_integers(of, values):
        return [None if v is None else _text(raw) for v, raw in zip(values, raws, strict=True)], {}
    texts: Texts = []
    misfits: dict[int, MisfitError] = {}
    for i, (value, raw) in enumerate(zip(values, raws, strict=True)):
        try:
            texts.append(None if value is None else _as_text(of, value, raw))
        except MisfitError as e:
            texts.append(None)
            misfits[i] = e
    return texts, misfits


def _as_text(of: Type, value: Any, raw: msgspec.Raw | bytes) -> str:
    kind = of.kind
    if kind is Kind.JSON:
        return _text(raw)
    if kind is Kind.ARRAY and isinstance(value, list) and of.element is not None:
        return _array(of.element, raw)
    if kind is Kind.BOOL and isinstance(value, bool):
        return _text(raw)
    if kind is Kind.NUMBER and type(value) in (int, float, str):
        return _number(of, value if isinstance(value, str) else _text(raw))
    if isinstance(value, str) and kind not in (Kind.ARRAY, Kind.BOOL, Kind.NONE):
        return _STRINGS.get(kind, _unchanged)(of, value)
    raise MisfitError(_MISMATCH, f"the column's type does not accept {_NAMES.get(type(value), 'a number')}")


def _text(raw: msgspec.Raw | bytes) -> str:
    return bytes(raw).decode()


def _unchanged(_: Type, value: str) -> str:
    return value


def _number(of: Type, text: str) -> str:
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise MisfitError(_BAD_TEXT, "the string is not a number")
    if of.is_integer:
        return _integer(of, match)
    if of.scale is not None and _loses_digits(match, of.scale):
        raise MisfitError(
            "22003", f"the column stores {of.scale} digits after the point; further digits would be lost"
        )
    if not value_changes.keeps_number(of, text):
        raise MisfitError("22003", "the column stores fewer digits: declare it double precision or numeric")
    return text


def _integer(of: Type, number: re.Match[str]) -> str:
    """Return an integer as digits only: JSON may write 1000 as 1e3 or 1000.0."""
    sign = "-" if number[0].startswith("-") else ""
    digits = number["whole"] + (number["fraction"] or "")
    shift = _exponent(number) - len(number["fraction"] or "")
    if not digits.strip("0"):
        digits = "0"
    elif shift > _INTEGER_DIGITS:
        raise MisfitError("22003", "the number is larger than the column's type")
    elif shift >= 0:
        digits += "0" * shift
    elif digits[shift:].strip("0") or -shift >= len(digits):
        raise MisfitError(_BAD_TEXT, "the column accepts integers only")
    else:
        digits = digits[:shift]
    digits = digits.lstrip("0") or "0"
    bits = of.unsigned_bits
    if bits is not None and (
        (sign and digits != "0") or len(digits) > _INTEGER_DIGITS or int(digits) >> bits
    ):
        raise MisfitError("22003", f"the column accepts numbers from 0 to {2**bits - 1}")
    return sign + digits


def _exponent(number: re.Match[str]) -> int:
    digits = (number["exponent"] or "").lstrip("0") or "0"
    exponent = int(digits) if len(digits) <= _EXPONENT_DIGITS else 10**_EXPONENT_DIGITS
    return -exponent if number["sign"] == "-" else exponent


def _loses_digits(number: re.Match[str], scale: int) -> bool:
    """Return whether a number has more than `scale` digits after its point, without trailing zeros.

    `Decimal` cannot decide this, because it rejects some numbers that JSON can write.
    """
    whole, fraction = number["whole"], number["fraction"] or ""
    digits = (whole + fraction).rstrip("0")
    after = len(digits) - len(whole) - _exponent(number)
    return bool(digits.strip("0")) and after > scale


def _short_enough(of: Type, value: str) -> str:
    if of.longest is not None and len(value) > of.longest:
        raise MisfitError("22001", f"the column accepts at most {of.longest} characters")
    if of.longest_bytes is not None and len(value.encode()) > of.longest_bytes:
        raise MisfitError("22001", f"the column accepts at most {of.longest_bytes} bytes")
    return value


def _time(of: Type, value: str) -> str:
    match = _TIMES[of.kind].fullmatch(value)
    if match is None:
        raise MisfitError("22007", "not the RFC 3339 form of this type")
    parts = match.groupdict()
    year = parts.get("year") or ""
    if len(year) > _YEAR_DIGITS:
        raise MisfitError("22008", "the year is after 9999")
    if of.kind is Kind.TIMESTAMPTZ and int(year) in (MINYEAR, MAXYEAR) and not _has_utc(value):
        raise MisfitError("22008", "the time in UTC is not within the years 1 to 9999")
    if len((parts.get("fraction") or "").rstrip("0")) > of.second_digits:
        raise MisfitError(
            "22008",
            f"the column stores {of.second_digits} digits of a second; further digits would be lost",
        )
    return value


def _has_utc(value: str) -> bool:
    """Return whether a time with an offset is within the years 1 to 9999 in UTC, or is not a date."""
    try:
        datetime.fromisoformat(value.upper()).astimezone(UTC)
    except OverflowError:
        return False
    except ValueError:  # such as 30 February, which Postgres rejects
        pass
    return True


def plain_time(of: Type) -> str | None:
    """Return a pattern of texts that a time column certainly accepts; None for any other column."""
    if of.kind not in _TIMES:
        return None
    fraction = rf"(\.\d{{1,{of.second_digits}}})?" if of.second_digits else ""
    year = _INNER_YEAR if of.kind is Kind.TIMESTAMPTZ else rf"\d{{{_YEAR_DIGITS}}}"
    pattern = _TIMES[of.kind].pattern.replace(_FRACTION, fraction).replace(_YEAR, year)
    return f"^(?:{pattern})$"


def _interval(of: Type, value: str) -> str:
    if _INFINITE.search(value):
        raise MisfitError("22007", "an infinite interval is not supported")
    if lost := value_changes.interval_loss(of, value):
        raise MisfitError("22008", lost)
    return value


def _range(of: Type, value: str) -> str:
    """Return a range or multirange unchanged.  Raise `MisfitError` if a bound is not valid for its type."""
    try:
        for bound in bounds_of(value):
            _check_bound(of.element, bound)
    except ValueError:
        raise MisfitError(_BAD_TEXT, "not the form of a range") from None
    return value


def _check_bound(of: Type | None, text: str) -> None:
    if of is None or of.kind in (Kind.RANGE, Kind.JSON):
        raise MisfitError(_MISMATCH, "a range of ranges or JSON is not supported")
    if of.kind is not Kind.TEXT:
        text = text.strip()
    if of.kind in (Kind.TIMESTAMPTZ, Kind.TIMETZ) and _HOURS.search(text):
        text += ":00"
    _as_text(of, text, b"")


def _bytes(_: Type, value: str) -> str:
    if not value.startswith("\\x"):
        raise MisfitError(_BAD_TEXT, "bytea needs hex digits after \\x")
    return value


def _array(element: Type, raw: msgspec.Raw | bytes) -> str:
    """Build an array literal with every element quoted; nested arrays are dimensions except in json."""
    items = [_element(element, item) for item in msgspec.json.decode(raw, type=list[msgspec.Raw])]
    return "{" + ",".join(items) + "}"


def _element(element: Type, raw: msgspec.Raw | bytes) -> str:
    value = orjson.loads(memoryview(raw))
    if value is None:
        return "NULL"
    if isinstance(value, list) and element.kind is not Kind.JSON:
        if not value:  # Postgres stores [[]] and [[], []] as {}
            raise MisfitError(_BAD_TEXT, "an array in an array cannot be empty")
        return _array(element, raw)
    text = _as_text(element, value, raw).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


_STRINGS: Final[dict[Kind, Callable[[Type, str], str]]] = {
    Kind.TEXT: _short_enough,
    Kind.BYTES: _bytes,
    Kind.INTERVAL: _interval,
    Kind.RANGE: _range,
    **dict.fromkeys(_TIMES, _time),
}
