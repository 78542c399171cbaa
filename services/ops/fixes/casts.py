"""Values as another type: numbers, texts, booleans and date-times, each exactly or not at all."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

from services.ops.fixes.exact import Number
from shared.errors import BAD_FIX, UserError

#: Returns the cast value.  Raises `ValueError` with the expected type, never with the value.
Cast = Callable[[Any], Any]
_NUMBER: Final = re.compile(r"([+-]?)0*(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)", re.ASCII)
_LONGEST: Final = 128
_BOOLS: Final = {
    **dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "off", "0"), False),
}
_OPTIONS: Final = {
    "number": {"decimal"},
    "text": set(),
    "bool": set(),
    "date-time": {"format", "zone", "unit"},
}
_UNITS: Final = {"s": 1, "ms": 1_000}
#: The last second of the year 9999.
_LAST_SECOND: Final = Decimal(253_402_300_799)
_SOME_TIME: Final = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)


def cast_to(kind: object, options: Mapping[str, Any]) -> Cast:
    """Return the cast.  Raises `UserError` for an unknown one."""
    are_texts = all(isinstance(given, str) for given in (kind, *options.values()))
    if not are_texts or kind not in _OPTIONS or not options.keys() <= _OPTIONS[str(kind)]:
        raise UserError(
            BAD_FIX, "cast: `to` is number (decimal), text, bool or date-time (format, zone, unit)"
        )
    if kind == "number":
        return _to_number(options.get("decimal", "."))
    if kind == "date-time":
        return _to_moment(options)
    return _to_text if kind == "text" else _to_bool


def _to_number(decimal: object) -> Cast:
    if decimal not in {".", ","}:
        raise UserError(BAD_FIX, "cast: `decimal` is a point or a comma")

    def cast(value: Any) -> Any:
        if value is None or isinstance(value, Number):
            return value
        text = value.strip() if isinstance(value, str) else ""
        if decimal == ",":
            text = "" if "." in text else text.replace(",", ".")
        match = _NUMBER.fullmatch(text) if len(text) <= _LONGEST else None
        if match is None:
            raise ValueError("is not a number as text" + (" with a decimal comma" if decimal == "," else ""))
        sign, digits = match.groups()
        return Number(f"{'-' if sign == '-' else ''}{digits}")

    return cast


def _to_text(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Number):
        return value.text
    raise ValueError("is an object or an array")


def _to_bool(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    text = value.text if isinstance(value, Number) else value
    found = _BOOLS.get(text.strip().lower()) if isinstance(text, str) else None
    if found is None:
        raise ValueError("is neither true nor false")
    return found


def _to_moment(options: Mapping[str, Any]) -> Cast:
    form, zone, unit = _form(options.get("format")), _zone(options.get("zone")), options.get("unit", "s")
    if unit not in _UNITS:
        raise UserError(BAD_FIX, "cast: `unit` of numbers is s or ms since 1970")

    def cast(value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, Number):
            return _since_1970(value, _UNITS[unit])
        return _parsed(value, form, zone)

    return cast


def _form(form: object) -> str | None:
    """Return a `format` that can parse its own output.  Raises `UserError`."""
    if form is None:
        return None
    try:
        datetime.strptime(_SOME_TIME.strftime(str(form)), str(form))  # noqa: DTZ007 - it is only tried
    except (ValueError, re.error):
        raise UserError(BAD_FIX, "cast: `format` is none of strptime, such as %d.%m.%Y %H:%M") from None
    return str(form)


def _zone(name: object) -> tzinfo | None:
    if name is None:
        return None
    try:
        return ZoneInfo(str(name))
    except (ValueError, OSError, KeyError):
        raise UserError(BAD_FIX, "cast: `zone` is none that is known, such as Europe/Berlin or UTC") from None


def _since_1970(value: Number, unit: int) -> str:
    try:
        seconds = Decimal(value.text) / unit
    except ArithmeticError:
        seconds = _LAST_SECOND + 1
    if not 0 <= seconds <= _LAST_SECOND:  # before it is an integer of as many digits
        raise ValueError("is not a time since 1970")
    whole, micros = divmod(int(seconds * 1_000_000), 1_000_000)
    return _written(datetime.fromtimestamp(whole, UTC).replace(microsecond=micros))


def _parsed(value: object, form: str | None, zone: tzinfo | None) -> str:
    try:
        text = value.strip() if isinstance(value, str) else ""
        # Without an offset it gets the zone's below.
        found = datetime.strptime(text, form) if form else datetime.fromisoformat(text)  # noqa: DTZ007
    except ValueError:
        raise ValueError("is not a date-time" + (" of this format" if form else "")) from None
    if found.tzinfo is None:
        if zone is None:
            raise ValueError("has no offset from UTC: give a zone")
        found = found.replace(tzinfo=zone)
    return _written(found)


def _written(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
