"""Differences between two JSON documents, by JSON Pointer."""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from shared.contracts.pair import escaped

#: Stands for a value that one of the documents lacks.
ABSENT: Final = object()


class JsonDifference(NamedTuple):
    """A place at which two documents differ; `ABSENT` if one has nothing there."""

    pointer: str
    first: Any
    second: Any


def always(*_: list[Any]) -> bool:
    """Return that any two lists are compared by index."""
    return True


def differences(
    first: Any, second: Any, by_index: Callable[[list[Any], list[Any]], bool] = always
) -> Iterator[JsonDifference]:
    """Yield the innermost differences, in the order of `first`.  Numbers are equal by value; true is not 1.

    `by_index`: whether two lists are compared by index; other lists are one value.
    """
    # Not recursive: a document may be nested as deeply as JSON may be.
    waiting: list[JsonDifference] = [JsonDifference("", first, second)]
    while waiting:
        pointer, a, b = each = waiting.pop()
        if isinstance(a, dict) and isinstance(b, dict):
            members = [(name, a.get(name, ABSENT), b.get(name, ABSENT)) for name in {**a, **b}]
        elif isinstance(a, list) and isinstance(b, list) and by_index(a, b):
            members = [(str(i), _at(a, i), _at(b, i)) for i in range(max(len(a), len(b)))]
        else:
            if not _are_equal(a, b):
                yield each
            continue
        waiting += [JsonDifference(f"{pointer}/{escaped(name)}", x, y) for name, x, y in reversed(members)]


def _at(values: list[Any], index: int) -> Any:
    return values[index] if index < len(values) else ABSENT


def _are_equal(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, bool) is isinstance(b, bool) and bool(a == b))
