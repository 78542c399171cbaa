"""Facets: the differing values among events of one cause, with counts; rare values are merged.

Clients choose values freely, so the number of values per facet is limited.  A merged value that recurs starts
at zero: its count covers only events since then, and the total remains correct.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self

import orjson

from services.ops.parked.parked_events import StoredEvent
from shared.mask import pointer_tokens

#: Maximum values of a facet; beyond it, half of them are merged.
MAX: Final = 64
#: Values of a facet that are shown.
SHOWN: Final = 10
#: Hours that are shown.
SHOWN_HOURS: Final = 24
_BODIES: Final = ("payload", "data")
#: Length of an ISO 8601 time down to the hour.
_HOUR: Final = len("2026-01-01T00")


class Value(NamedTuple):
    """A value of a facet, None if it is missing, and its number of events."""

    value: str | None
    events: int


@dataclass(slots=True)
class _Facet:
    """The values of one facet; the limit retains the `newest`, else the most frequent ones."""

    newest: bool
    values: dict[str | None, int] = field(default_factory=dict)
    others: int = 0

    def ranked(self) -> list[Value]:
        """Return all values in their order."""
        found = [Value(*item) for item in self.values.items()]
        if self.newest:
            return sorted(found, key=lambda v: v.value or "", reverse=True)
        return sorted(found, key=lambda v: (-v.events, v.value or ""))

    def add(self, value: str | None) -> None:
        """Count one event; in a plain dict, because it runs for every stored event."""
        self.values[value] = self.values.get(value, 0) + 1

    def bound(self) -> None:
        """Merge rare values beyond the limit."""
        if len(self.values) > MAX:
            for value, events in self.ranked()[MAX // 2 :]:
                del self.values[value]
                self.others += events


class Facets:
    """The facets of one group."""

    def __init__(self) -> None:
        self._facets = {name: _Facet(name == "hour") for name in ("version", "shape", "hour")}

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Self:
        """Return the facets from their stored form."""
        facets = cls()
        for name, (values, others) in stored.items():
            facet = facets._facets[name]
            facet.values, facet.others = dict(values), others
        return facets

    def stored(self) -> str:
        """Return the facets as JSON: values with their counts, and the count of the others."""
        of = {name: [list(f.values.items()), f.others] for name, f in self._facets.items() if f.values}
        return orjson.dumps(of).decode()

    def add(self, events: Iterable[StoredEvent], *, shapes: bool) -> None:
        """Count events; `shapes` of values only if all of them are of one place."""
        version, shape, hour = (self._facets[name] for name in ("version", "shape", "hour"))
        for event in events:
            version.add(event.version)
            hour.add(f"{event.parked_at.isoformat()[:_HOUR]}:00Z")
            if shapes and event.shape is not None:
                shape.add(event.shape)
        for facet in self._facets.values():
            facet.bound()

    def shown(self, *, shapes: bool) -> dict[str, dict[str, Any]]:
        """Return the first values of each facet, and the number of events with other ones."""
        return {
            name: _view(facet)
            for name, facet in self._facets.items()
            if facet.values and (shapes or name != "shape")
        }


def _view(facet: _Facet) -> dict[str, Any]:
    ranked = facet.ranked()
    limit = SHOWN_HOURS if facet.newest else SHOWN
    others = facet.others + sum(value.events for value in ranked[limit:])
    return {"values": [value._asdict() for value in ranked[:limit]], "others": others}


def is_personal(column: str | None, place: str | None, personal: Iterable[str]) -> bool:
    """Return whether the value at a group's column or place is covered by the `personal` pointers.

    Any index matches any other, as in the place.  A value at an unknown place is personal.
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
