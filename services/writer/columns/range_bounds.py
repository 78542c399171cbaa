"""Splits the text of a range or multirange into its bounds, by the rules of Postgres' range types."""

import re
from collections.abc import Iterator
from typing import Final

#: A bound: texts in quotes, escapes and plain characters.  Atomic, so that a bad text takes no time.
_BOUND: Final = r'(?>"(?:[^"\\]|\\.|"")*+"|\\.|[^"\\,()\[\]{}])*+'
_RANGE: Final = re.compile(
    rf"\s*(?:[Ee][Mm][Pp][Tt][Yy]|[\[(](?P<lower>{_BOUND}),(?P<upper>{_BOUND})[\])])\s*", re.DOTALL
)
_QUOTED: Final = re.compile(r'\\(.)|""|"', re.DOTALL)


def bounds_of(text: str) -> Iterator[str]:
    """Yield the finite bounds of a range, or of each range of a multirange, without quotes and escapes.

    Raise `ValueError` if `text` is neither.
    """
    text = text.strip()
    is_many = text.startswith("{") and text.endswith("}")
    place, end = (1, len(text) - 1) if is_many else (0, len(text))
    if is_many and not text[place:end].strip():
        return
    while True:
        match = _RANGE.match(text, place, end)
        if match is None:
            raise ValueError
        for bound in filter(None, match.group("lower", "upper")):
            yield _QUOTED.sub(_unquoted, bound)
        place = match.end()
        if place == end:
            return
        if not is_many or text[place] != ",":
            raise ValueError
        place += 1


def _unquoted(match: re.Match[str]) -> str:
    return match[1] or ('"' if match[0] == '""' else "")
