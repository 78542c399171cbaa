"""Differences between two JSON documents, by JSON Pointer."""

from collections.abc import Iterator
from typing import Any, NamedTuple

#: Stands for a value that one of the documents lacks.
ABSENT = object()


class JsonDifference(NamedTuple):
    """A place at which two documents differ; `ABSENT` if one has nothing there."""

    pointer: str
    first: Any
    second: Any


def differences(first: Any, second: Any, pointer: str = "") -> Iterator[JsonDifference]:
    """Yield the innermost differences.  Numbers are equal by value; true is not 1."""
    if isinstance(first, dict) and isinstance(second, dict):
        for name in sorted({*first, *second}):
            yield from differences(
                first.get(name, ABSENT), second.get(name, ABSENT), f"{pointer}/{_escaped(name)}"
            )
    elif isinstance(first, list) and isinstance(second, list):
        for index in range(max(len(first), len(second))):
            yield from differences(_at(first, index), _at(second, index), f"{pointer}/{index}")
    elif first is not second and (isinstance(first, bool) is not isinstance(second, bool) or first != second):
        yield JsonDifference(pointer, first, second)


def _at(values: list[Any], index: int) -> Any:
    return values[index] if index < len(values) else ABSENT


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
