"""What `onramp.settled` says: baselines, totals without a destination, the routes of the plans.

A reading of its own, not the writer's: a mistake of the writer's in this format must show.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from services.admin.findings import Place

LANDING_SCHEMA: Final = "events"


class Totals(NamedTuple):
    """What no database counts of one partition, below `next_offset`: events, and refused destinations."""

    next_offset: int = 0
    filtered: int = 0
    unroutable: int = 0
    refused: int = 0


class _Route(msgspec.Struct):
    event_name: str
    database: str
    schema: str = ""
    table: str = ""


class _Routes(msgspec.Struct):
    """As much of a snapshot as the audit asks of it."""

    default_database: str
    event_routes: list[_Route] = []


@dataclass(frozen=True, slots=True)
class Routed:
    """A place that an event goes to.  In a typed table it cannot be found by its receipt."""

    place: Place
    typed: bool


@dataclass(slots=True)
class SettledLog:
    """The topic's entries, by (topic id, partition)."""

    baselines: dict[tuple[str, int], Mapping[str, int]] = field(default_factory=dict)
    totals: dict[tuple[str, int], Totals] = field(default_factory=dict)
    routes: list[Mapping[str, Any]] = field(default_factory=list)

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Take in one entry; of several epochs' totals the furthest counts.

        Any client may write to the topic: what is no entry is passed over.
        """
        try:
            self._apply((key or b"").decode().split("/"), value or b"")
        except (ValueError, IndexError):
            return

    def _apply(self, key: list[str], value: bytes) -> None:
        kind, *rest = key
        if kind == "routes":
            self.routes.append(msgspec.to_builtins(msgspec.json.decode(value, type=_Routes)))
        elif kind == "baseline":
            life = (rest[0], int(rest[1]))
            first = msgspec.json.decode(value, type=dict[str, int])
            # Found again at the end: the topic's newest life is the one that was seen last.
            self.baselines[life] = {**self.baselines.pop(life, {}), **first}
        elif kind == "totals":
            life = (rest[0], int(rest[1]))
            found = msgspec.json.decode(value, type=Totals)
            self.totals[life] = max(self.totals.get(life, Totals()), found)

    def destinations(self, event: str, otherwise: str) -> list[frozenset[Routed]]:
        """Where events of this name went: one set for each snapshot of the routes that differs.

        `otherwise` is the default database while no plan was ever written.
        """
        found = [_destinations(event, routes) for routes in self.routes]
        landing = frozenset({Routed(Place(otherwise, LANDING_SCHEMA, event), typed=False)})
        return list(dict.fromkeys(found)) or [landing]


def _destinations(event: str, routes: Mapping[str, Any]) -> frozenset[Routed]:
    named = [r for r in routes.get("event_routes", ()) if r["event_name"] == event]
    if not named:
        return frozenset({Routed(Place(routes["default_database"], LANDING_SCHEMA, event), typed=False)})
    return frozenset(
        Routed(Place(r["database"], r["schema"], r["table"]), typed=True)
        if r.get("table")
        else Routed(Place(r["database"], LANDING_SCHEMA, event), typed=False)
        for r in named
    )
