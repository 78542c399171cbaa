"""An event as lines of JSON in which the field at fault is marked."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import orjson

from shared.mask import pointer_tokens

_BODIES: Final = ("payload", "data")
_MAX_LINES: Final = 400
_Path = tuple[str, ...]


class Line(NamedTuple):
    """A line, and whether it is of the field at fault."""

    text: str
    is_marked: bool = False


def lines_of(document: Any, column: str | None, place: str | None) -> Sequence[Line]:
    """Return the lines of a document; `column` and `place` are those of a group's cause."""
    marked = _marked(document, column, place)
    found = list(_lines(document, "", "", (), marked))
    return (
        [*found[:_MAX_LINES], Line(f"… {len(found) - _MAX_LINES:,} lines")] if found[_MAX_LINES:] else found
    )


def _marked(document: Any, column: str | None, place: str | None) -> _Path | None:
    """Return the path of the field at fault; an index of an array is `*`."""
    if column:
        bodies = [name for name in _BODIES if isinstance(document, dict) and name in document]
        is_member = isinstance(document, dict) and column in document
        return (bodies[0], column) if bodies and not is_member else (column,)
    return pointer_tokens(place) if place and place.startswith("/") else None


def _lines(value: Any, head: str, tail: str, path: _Path, marked: _Path | None) -> Iterator[Line]:
    is_marked = marked is not None and _is(path, marked)
    indent = "  " * len(path)
    pairs = list(value.items()) if isinstance(value, dict) else [("", each) for each in _items(value)]
    if not pairs:
        yield Line(f"{indent}{head}{_text(value)}{tail}", is_marked)
        return
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    yield Line(f"{indent}{head}{opening}", is_marked)
    for number, (name, each) in enumerate(pairs):
        step = name if isinstance(value, dict) else "*"
        inner = f"{_text(name)}: " if isinstance(value, dict) else ""
        comma = "," if number < len(pairs) - 1 else ""
        yield from _lines(each, inner, comma, (*path, step), marked)
    yield Line(f"{indent}{closing}{tail}", is_marked)


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return orjson.dumps(value).decode()


def _is(path: _Path, marked: _Path) -> bool:
    """Return whether a path is the field at fault or within it."""
    return len(path) >= len(marked) > 0 and all(
        b in ("*", a) or (a == "*" and b.isdecimal()) for a, b in zip(path, marked, strict=False)
    )


def value_at(document: Any, column: str | None, place: str | None) -> str:
    """Return the value of the field at fault as text, or an empty text without one."""
    marked = _marked(document, column, place)
    found = document
    for step in marked or ("",):
        if isinstance(found, list) and (step == "*" or step.isdecimal()):
            found = next(iter(found), None)
        elif isinstance(found, dict):
            found = found.get(step)
        else:
            return ""
    return found if isinstance(found, str) else "" if found is None else _text(found)
