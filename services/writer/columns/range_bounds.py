"""Splits the text of a range or multirange into its bounds, by the rules of Postgres' range types."""

import re
from collections.abc import Iterator
from typing import Final

#: A bound: quoted texts, escapes and plain characters.  Atomic groups prevent backtracking on a bad text.
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
    is_multirange = text.startswith("{") and text.endswith("}")
    position, end = (1, len(text) - 1) if is_multirange else (0, len(text))
    if is_multirange and not text[position:end].strip():
        return
    while True:
        match = _RANGE.match(text, position, end)
        if match is None:
            raise ValueError
        for bound in filter(None, match.group("lower", "upper")):
            yield _QUOTED.sub(_unquoted, bound)
        position = match.end()
        if position == end:
            return
        if not is_multirange or text[position] != ",":
            raise ValueError
        position += 1


def _unquoted(match: re.Match[str]) -> str:
    return match[1] or ('"' if match[0] == '""' else "")
