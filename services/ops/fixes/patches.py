"""JSON Patch (RFC 6902) within a payload: each operation is one change of a place."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Final

from services.ops.fixes.places import Place
from shared.errors import BAD_FIX, UserError

#: Changes a payload in place.  Raises `UserError`.
Change = Callable[[Any], None]
_VALUED: Final = frozenset({"add", "replace", "test"})
_MOVING: Final = frozenset({"move", "copy"})


def change_of(operation: object) -> Change:
    """Return the change of a patch operation.  Raises `UserError` for an invalid one."""
    if not isinstance(operation, Mapping) or not isinstance(op := operation.get("op"), str):
        raise UserError(BAD_FIX, "patch: each operation is an object with `op`")
    needed = {"op", "path"} | ({"value"} if op in _VALUED else set()) | ({"from"} if op in _MOVING else set())
    if operation.keys() != needed or op not in {"remove", *_VALUED, *_MOVING}:
        raise UserError(
            BAD_FIX, "patch: add, replace and test have a path and a value, move and copy from and path"
        )
    place = Place(operation["path"])
    if op in _MOVING:
        return _moving(op, Place(operation["from"]), place)
    if op == "remove":
        return lambda payload: _drop(place, payload)
    return _valued(op, place, operation["value"])


def _drop(place: Place, payload: Any) -> None:
    place.take(payload)


def _moving(op: str, source: Place, place: Place) -> Change:
    if op == "copy":
        return lambda payload: place.add(payload, deepcopy(source.get(payload)))
    if place.is_within(source):
        raise UserError(BAD_FIX, "patch: a value cannot move into itself")
    return lambda payload: place.add(payload, source.take(payload))


def _valued(op: str, place: Place, value: object) -> Change:
    if op == "add":
        return lambda payload: place.add(payload, deepcopy(value))
    if op == "replace":
        return lambda payload: place.replace(payload, deepcopy(value))

    def test(payload: Any) -> None:
        if not _same(place.get(payload), value):
            raise place.error("is not what the patch tests for")

    return test


def _same(one: object, other: object) -> bool:
    """Return whether two JSON values are equal; true is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and one == other
