"""Facets: what differs among events of one cause, counted by value; what is rare is counted together.

Values are anybody's to make up, so of each facet few are counted by name.  One that was counted among the
others and comes again starts anew: its count is then of what came since, and all counts still add up.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self

import orjson

from services.ops.parked.parked_events import StoredEvent
from shared.mask import pointer_tokens

#: Of a facet so many values are counted by name; if there are more, half of them go on.
MAX: Final = 64
#: Of which so many are shown.
SHOWN: Final = 10
_BODIES: Final = ("payload", "data")
#: Of a time in ISO 8601, down to the hour.
_HOUR: Final = len("2026-01-01T00")


class Value(NamedTuple):
    """How many events have one value of a facet; None: they say none."""

    value: str | None
    events: int


@dataclass(slots=True)
class _Facet:
    """The values of one facet; `newest`: of too many the newest stay, else the most frequent."""

    newest: bool
    values: dict[str | None, int] = field(default_factory=dict)
    others: int = 0

    def ranked(self) -> list[Value]:
        """Return all values, the first of them first."""
        found = [Value(*item) for item in self.values.items()]
        if self.newest:
            return sorted(found, key=lambda v: v.value or "", reverse=True)
        return sorted(found, key=lambda v: (-v.events, v.value or ""))

    def add(self, value: str | None) -> None:
        """Count one event: a plain dict, for this is once for each that is kept."""
        self.values[value] = self.values.get(value, 0) + 1

    def bound(self) -> None:
        """Count what is rare together."""
        if len(self.values) > MAX:
            for value, events in self.ranked()[MAX // 2 :]:
                del self.values[value]
                self.others += events


class Facets:
    """What is counted of one group."""

    def __init__(self) -> None:
        self._facets = {name: _Facet(name == "hour") for name in ("version", "shape", "hour")}

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Self:
        """Return what `stored` says."""
        facets = cls()
        for name, (values, others) in stored.items():
            facet = facets._facets[name]
            facet.values, facet.others = dict(values), others
        return facets

    def stored(self) -> str:
        """Return it as JSON: by facet its values with their counts, and the count of the others."""
        of = {name: [list(f.values.items()), f.others] for name, f in self._facets.items() if f.values}
        return orjson.dumps(of).decode()

    def add(self, events: Iterable[StoredEvent], *, shapes: bool) -> None:
        """Count events; their values' `shapes` only where all of them are of one place."""
        version, shape, hour = (self._facets[name] for name in ("version", "shape", "hour"))
        for event in events:
            version.add(event.version)
            hour.add(f"{event.parked_at.isoformat()[:_HOUR]}:00Z")
            if shapes and event.shape is not None:
                shape.add(event.shape)
        for facet in self._facets.values():
            facet.bound()

    def shown(self, *, shapes: bool) -> dict[str, dict[str, Any]]:
        """Return by facet its first values, and how many events have another one."""
        return {
            name: _view(facet)
            for name, facet in self._facets.items()
            if facet.values and (shapes or name != "shape")
        }


def _view(facet: _Facet) -> dict[str, Any]:
    ranked = facet.ranked()
    others = facet.others + sum(value.events for value in ranked[SHOWN:])
    return {"values": [value._asdict() for value in ranked[:SHOWN]], "others": others}


def is_personal(column: str | None, place: str | None, personal: Iterable[str]) -> bool:
    """Whether the value at a group's column or place is, or is in, what `personal` pointers call so.

    Indices count as any index, as in the place.  Where it is not known which place that is, it is personal.
    """
    hidden = [_path(pointer) for pointer in personal]
    if not hidden:
        return False
    if place and not place.startswith("/") and not column:
        return True
    pointed = _path(place) if place and place.startswith("/") else ()
    paths = [pointed[1:] if pointed[:1] and pointed[0] in _BODIES else pointed, (column,) if column else ()]
    return any(path[: len(each)] == each for path in paths if path for each in hidden)


def _path(pointer: str) -> tuple[str | None, ...]:
    return tuple("*" if token.isdecimal() else token for token in pointer_tokens(pointer))
