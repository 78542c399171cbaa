"""A fix: steps that edit a payload in sequence.  They are data; no user code runs."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

from services.ops.fixes import exact
from services.ops.fixes.casts import cast_to
from services.ops.fixes.patches import Change, change_of
from services.ops.fixes.places import NOTHING, Place
from shared.errors import BAD_FIX, FIX_DOES_NOT_APPLY, UserError
from shared.strict_json import MAX_DEPTH

#: Maximum steps of one fix; a patch counts each of its operations.
MAX_STEPS: Final = 64
#: Maximum growth of an event by a fix.
MAX_BYTES: Final = 16 << 20
#: Maximum characters of a stored fix: each event may grow by all of it.
_LONGEST: Final = 64 << 10
_MEMBERS: Final = {
    "rename": {"rename", "to"},
    "default": {"default", "value"},
    "drop": {"drop"},
    "patch": {"patch"},
}
_STEPS: Final = "each step is one of rename (to), cast (to, …), default (value), drop and patch"


class Fix:
    """The steps of a fix."""

    def __init__(self, steps: object) -> None:
        """Parse the steps.  Raises `UserError` BAD_FIX, which names the step and its error."""
        if isinstance(steps, Mapping):
            steps = [steps]
        if not isinstance(steps, list) or not steps:
            raise UserError(BAD_FIX, "a fix is a step, or a list of steps")
        self._changes: list[Change] = []
        for number, step in enumerate(steps, 1):
            try:
                self._changes += _changes_of(step)
            except UserError as e:
                raise UserError(BAD_FIX, f"step {number}: {e.detail}") from None
        if len(self._changes) > MAX_STEPS:
            raise UserError(BAD_FIX, f"the fix has more than {MAX_STEPS} steps")
        #: As it is stored.
        self.text = exact.dumps(steps).decode()
        if len(self.text) > _LONGEST:
            raise UserError(
                BAD_FIX, f"the fix has more than {_LONGEST:,} characters: send edited lines instead"
            )

    def max_bytes(self, size: int) -> int:
        """Return the maximum bytes of an edited event of that size.

        Repeated copies would double the size each time, and thousands of events are edited at once.
        """
        return min(MAX_BYTES, 2 * (size + len(self.text)))

    def apply(self, payload: Any, max_bytes: int) -> None:
        """Edit `payload` in place.  Raises `UserError`, which names places and never values.

        The serialized payload never exceeds `max_bytes` bytes.
        """
        for change in self._changes:
            change(payload)
            _require_bounded(payload, max_bytes)


def _changes_of(step: object) -> list[Change]:
    if not isinstance(step, Mapping):
        raise UserError(BAD_FIX, _STEPS)
    verb = next((name for name in ("cast", *_MEMBERS) if name in step), "")
    if verb == "cast":
        return [_cast(step)]
    if not verb or step.keys() != _MEMBERS[verb]:
        raise UserError(BAD_FIX, _STEPS)
    if verb == "patch":
        return _patch(step["patch"])
    place = Place(step[verb])
    return [{"rename": _rename, "default": _default, "drop": _drop}[verb](place, step)]


def _patch(operations: object) -> list[Change]:
    if not isinstance(operations, list) or not operations:
        raise UserError(BAD_FIX, "patch: a list of operations (RFC 6902)")
    return [change_of(operation) for operation in operations]


def _rename(source: Place, step: Mapping[str, Any]) -> Change:
    place = Place(step["to"])
    return lambda payload: place.put(payload, source.take(payload))


def _cast(step: Mapping[str, Any]) -> Change:
    place, options = Place(step["cast"]), {n: v for n, v in step.items() if n not in {"cast", "to"}}
    cast = cast_to(step.get("to"), options)

    def change(payload: Any) -> None:
        try:
            place.replace(payload, cast(place.get(payload)))
        except ValueError as e:
            raise place.error(str(e)) from None

    return change


def _default(place: Place, step: Mapping[str, Any]) -> Change:
    value = step["value"]

    def change(payload: Any) -> None:
        found = place.find(payload)
        if found is NOTHING:
            place.put(payload, deepcopy(value))
        elif found is None:
            place.replace(payload, deepcopy(value))

    return change


def _drop(place: Place, _: Mapping[str, Any]) -> Change:
    def change(payload: Any) -> None:
        if place.find(payload) is not NOTHING:
            place.take(payload)

    return change


def _require_bounded(payload: Any, max_bytes: int) -> None:
    """Raise `UserError` for a payload beyond the limit: each value is at least one byte."""
    level, size = [payload], 0
    for _ in range(MAX_DEPTH):
        level = [each for parent in level for each in _children(parent)]
        size += len(level) + sum(map(_length, level))
        if not level or size > max_bytes:
            break
    if level:
        raise UserError(
            FIX_DOES_NOT_APPLY,
            "the fix does not apply: the payload grows beyond the limit (twice its size)",
        )


def _length(value: Any) -> int:
    """Return the approximate serialized length of a value without its children."""
    if isinstance(value, str):
        return len(value)
    return len(value.text) if isinstance(value, exact.Number) else 0


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else []
