"""Reads and writes places in a payload, by JSON Pointer (RFC 6901).

A missing place is an error that names the pointer, never a value.
"""

import re
from typing import Any, Final

from shared.errors import BAD_FIX, FIX_DOES_NOT_APPLY, UserError

NOTHING: Final = object()
_LONGEST: Final = 1_024
#: An array index: without leading zeros, and with no more digits than arrays of one event need.
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}")


class Place:
    """A member of the payload, or an item of an array in it; never the payload itself."""

    def __init__(self, pointer: object) -> None:
        """Raise `UserError` for an invalid pointer."""
        if not isinstance(pointer, str) or not pointer.startswith("/") or len(pointer) > _LONGEST:
            raise UserError(BAD_FIX, "a place is a JSON Pointer into the payload, such as /price")
        self.pointer = pointer
        *path, last = (token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:])
        self._path, self._last = path, last

    def find(self, payload: Any) -> Any:
        """Return the value, or `NOTHING` if it is missing."""
        parent = self._parent(payload)
        if isinstance(parent, dict):
            return parent.get(self._last, NOTHING)
        return _item(parent, self._last)

    def get(self, payload: Any) -> Any:
        """Return the value.  Raises `UserError` if it is missing."""
        found = self.find(payload)
        if found is NOTHING:
            raise self.error("is not there")
        return found

    def take(self, payload: Any) -> Any:
        """Remove the value, and return it.  Raises `UserError` if it is missing."""
        found = self.get(payload)
        parent = self._parent(payload)
        del parent[self._last if isinstance(parent, dict) else int(self._last)]
        return found

    def replace(self, payload: Any, value: object) -> None:
        """Replace the value by `value`.  Raises `UserError` if it is missing."""
        self.get(payload)
        parent = self._parent(payload)
        parent[self._last if isinstance(parent, dict) else int(self._last)] = value

    def put(self, payload: Any, value: object) -> None:
        """Add a member with `value` to an object.  Raises `UserError` if it exists."""
        parent = self._parent(payload)
        if not isinstance(parent, dict):
            raise self.error("has no object around it")
        if self._last in parent:
            raise self.error("exists already")
        parent[self._last] = value

    def add(self, payload: Any, value: object) -> None:
        """Set a member, or insert an item into an array (`-`: at its end).  Raises `UserError`."""
        parent = self._parent(payload)
        if isinstance(parent, dict):
            parent[self._last] = value
        elif isinstance(parent, list) and self._last in {"-", str(len(parent))}:
            parent.append(value)
        elif _item(parent, self._last) is not NOTHING:
            parent.insert(int(self._last), value)
        else:
            raise self.error("has no object or array around it that takes it")

    def is_within(self, other: "Place") -> bool:
        """Return whether it is `other` or inside it."""
        return f"{self.pointer}/".startswith(f"{other.pointer}/")

    def error(self, why: str) -> UserError:
        """Return an error about this place."""
        return UserError(FIX_DOES_NOT_APPLY, f"the fix does not apply: {self.pointer} {why}", self.pointer)

    def _parent(self, payload: Any) -> Any:
        found = payload
        for token in self._path:
            found = found.get(token, NOTHING) if isinstance(found, dict) else _item(found, token)
        return found


def _item(found: object, token: str) -> Any:
    if not isinstance(found, list) or not _INDEX.fullmatch(token) or int(token) >= len(found):
        return NOTHING
    return found[int(token)]
