r"""Refuses a schema whose patterns take too long to compile, before it is compiled.

A compilation holds the interpreter's lock, in every process of every service. `\p{L}` has 650 ranges of
characters: a repetition up to 200 is 200 copies and takes 60 ms. The library also reads a pattern
again for each `\s`: 2,000 of them (4 KB) take 9 s. The unit is 10 ns, measured with jsonschema-rs 0.60.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from shared.contracts.pattern_cost import expanded, is_backtracking
from shared.contracts.schema_references import TooCostlyError

#: Maximum cost of the patterns of one schema: about 1 s.
_MAX_COST: Final = 60_000_000
#: The same of all schemas of a registry: about 5 s and 0.5 GB, in each process of a gateway when it starts.
_MAX_TOGETHER: Final = 300_000_000
#: A character of the text, which services also read to estimate events, and one with repetitions expanded.
_TEXT: Final = 300
_CHARACTER: Final = 50
#: A character other than some, such as `.` and `[^a]`.
_OTHER: Final = 400
#: A property of characters; in patterns that are no automata `\w` is one, and so is `\d`.
_PROPERTY: Final = 30_000
_WITH_PROPERTY: Final = re.compile(r"\\[pP]")
_NEGATED: Final = re.compile(r"\.|\\[DWS]|\[\^", re.DOTALL)
_CLASSES: Final = re.compile(r"\\[wWdD]")
#: A range beyond ASCII without regard to case: each character is compared.
_FOLDED_RANGE: Final = 200_000
_FOLDED: Final = re.compile(r"\(\?[a-z]*i")
#: Escapes that the library replaces one by one by up to 60 characters, and the cost of reading a character.
_REPLACED: Final = re.compile(r"\\[sSwWdDc]")
_REPLACEMENT: Final = 30
_READING: Final = 8


def require_quick_patterns(schema: Mapping[str, Any]) -> None:
    """Raise `TooCostlyError` if the patterns of a schema take too long to compile."""
    cost = 0
    for pattern in set(_patterns(schema)):
        cost += _cost(pattern)
        if cost > _MAX_COST:
            raise TooCostlyError(
                "its patterns take too long to compile: repeat less after \\p{…} and in {n,m}, limit the "
                f"length of texts with maxLength, and use the same pattern in many places ({pattern:.100})"
            )


def require_quick_start(schemas: Iterable[Mapping[str, Any]], before: Iterable[Mapping[str, Any]]) -> None:
    """Raise `TooCostlyError` if the patterns of all schemas take too long to compile, and longer than before.

    The library compiles and stores a pattern again for each schema. Takes about 20 µs per schema.
    """
    cost = _together(schemas)
    if cost > _MAX_TOGETHER and cost > _together(before):
        raise TooCostlyError(
            f"the patterns of all event types together take {cost / _MAX_TOGETHER:.1f} times as long to "
            "compile as is allowed: repeat less after \\p{…} and in {n,m}, and limit the length of texts "
            "with maxLength"
        )


def _together(schemas: Iterable[Mapping[str, Any]]) -> int:
    return sum(_cost(pattern) for schema in schemas for pattern in set(_patterns(schema)))


def _patterns(schema: Mapping[str, Any]) -> Iterator[str]:
    left: list[Any] = [schema]
    while left:
        value = left.pop()
        if isinstance(value, Mapping):
            if isinstance(pattern := value.get("pattern"), str):
                yield pattern
            if isinstance(named := value.get("patternProperties"), Mapping):
                yield from named
            left += value.values()
        elif isinstance(value, list):
            left += value


@lru_cache(maxsize=1_000)
def _cost(pattern: str) -> int:
    replaced = len(_REPLACED.findall(pattern))
    reading = len(pattern) * _TEXT + replaced * (len(pattern) + replaced * _REPLACEMENT) * _READING
    if reading > _MAX_COST:  # the rest need not be read
        return reading
    is_hard, is_folded = is_backtracking(pattern), bool(_FOLDED.search(pattern))

    def weight(part: str) -> int:
        if _WITH_PROPERTY.search(part) or (is_hard and _CLASSES.search(part)):
            return _PROPERTY
        if is_folded and not part.isascii() and len(part) > 1:
            return _FOLDED_RANGE
        return _OTHER if _NEGATED.match(part) else _CHARACTER

    return reading + expanded(pattern, weight)
