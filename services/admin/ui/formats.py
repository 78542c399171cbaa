"""Values as text for people: harmless whatever they contain, numbers with separators, times relative."""

import re
import shlex
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

from markupsafe import Markup

#: Longest text of one value; an event may be a megabyte.
_MAX_TEXT: Final = 20_000
#: Characters that hide, reorder or end text: controls, marks of direction, zero widths, and halves of pairs.
_HARMFUL: Final = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u061c\\u180e\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f"
    "\\ud800-\\udfff\\ufe00-\\ufe0f\\ufeff\\ufff9-\\ufffb\\U000e0000-\\U000e0fff]"
)
_STEPS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def harmless(value: Any) -> Any:
    """Return a value as a template prints it: harmful characters as their escapes, long texts cut."""
    if value is None:
        return "–"  # noqa: RUF001 - a dash for no value
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    text = _HARMFUL.sub(_escape, value[:_MAX_TEXT])
    return text if len(value) <= _MAX_TEXT else f"{text}… ({len(value):,} characters)"


def number(value: float) -> str:
    """Return a number with separators of thousands; below 100 with at most one digit behind the point."""
    if isinstance(value, int) or abs(value) >= 100:  # noqa: PLR2004 - three digits are enough
        return f"{round(value):,}"
    return f"{value:.1f}".removesuffix(".0")


def quantity(value: int, one: str, many: str = "") -> str:
    """Return a number with its noun, such as "1 event" and "2 events"."""
    return f"{value:,} {one if value == 1 else many or one + 's'}"


def size(value: float) -> str:
    """Return a number of bytes with its unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:  # noqa: PLR2004 - SI units
            return f"{number(value)} {unit}"
        value /= 1000
    return f"{number(value)} TB"


def moment(value: datetime | str) -> datetime:
    """Return a time, also one in ISO 8601, in UTC."""
    read = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).astimezone(UTC)


def exact(value: datetime | str) -> str:
    """Return a time exactly to the second."""
    return f"{moment(value):%Y-%m-%d %H:%M:%S} UTC"


def duration(seconds: float) -> str:
    """Return a duration in its largest unit."""
    for length, unit in _STEPS:
        if seconds >= 2 * length or length == 1:
            return f"{max(round(seconds / length), 0):,} {unit}"
    raise AssertionError


def ago(value: datetime | str, now: datetime) -> str:
    """Return how long ago a time was, or how far ahead it is."""
    seconds = (now - moment(value)).total_seconds()
    if seconds < 0:
        return f"in {duration(-seconds)}"
    return f"{duration(seconds)} ago" if seconds >= 1 else "just now"


def href(path: str, **query: Any) -> str:
    """Return a link below /ui; parameters without a value are left out."""
    given = {name: value for name, value in query.items() if value not in (None, "")}
    return f"/ui{path}" + (f"?{urlencode(given)}" if given else "")


def command(verb: str, *arguments: object, **options: object) -> str:
    """Return a command of the command line as a shell takes it; options without a value are left out."""
    given = [(f"--{name.replace('_', '-')}", str(value)) for name, value in options.items() if value]
    return shlex.join([*verb.split(), *map(str, arguments), *(part for pair in given for part in pair)])


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"  # noqa: PLR2004
