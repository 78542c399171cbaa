"""What `onramp.settled` says: baselines, totals without a destination, the routes of the plans.

A reading of its own, not the writer's: a mistake of the writer's in this format must show.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from services.admin.findings import Place
from shared.unreadable import UNREADABLE

LANDING_SCHEMA: Final = "events"
#: Entries that the writer asks for and the audit does not.
_NOT_ASKED: Final = ("plan", "pin", "leader", "halt")


class Totals(NamedTuple):
    """What no database counts of one partition, below `next_offset`: events, and refused destinations."""

    next_offset: int = 0
    filtered: int = 0
    unroutable: int = 0
    refused: int = 0


class Line(msgspec.Struct):
    """The life that a partition goes on with after a person said so, and those between it and the first."""

    epoch: int
    life: str
    before: tuple[str, ...] = ()


class _Word(msgspec.Struct):
    how: str
    by: str


class _Route(msgspec.Struct):
    event_name: str
    database: str
    schema: str = ""
    table: str = ""


class _Routes(msgspec.Struct):
    """As much of a snapshot as the audit asks of it."""

    default_database: str
    event_routes: list[_Route] = []


class Routed(NamedTuple):
    """A place that an event goes to.  In a typed table it cannot be found by its receipt."""

    place: Place
    typed: bool


@dataclass(slots=True)
class SettledLog:
    """The topic's entries, by (topic id, partition); routes by their digest."""

    baselines: dict[tuple[str, int], Mapping[str, int]] = field(default_factory=dict)
    totals: dict[tuple[str, int], Totals] = field(default_factory=dict)
    routes: dict[str, "Ways"] = field(default_factory=dict)
    #: Which lives follow a topic's own id, by that.
    lines: dict[tuple[str, int], Line] = field(default_factory=dict)
    #: Who spoke last about a halt, by (topic, partition).
    words: dict[tuple[str, int], str] = field(default_factory=dict)
    #: Entries that nobody of Onramp's has written.
    foreign: int = 0
    _ever: dict[str, list[frozenset[Routed]]] = field(default_factory=dict)

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Take in one entry; of several epochs' totals the furthest counts.

        Any client may write to the topic: what is no entry is passed over.
        """
        try:
            self._apply((key or b"").decode().split("/"), value or b"")
        except UNREADABLE:
            self.foreign += 1

    def _apply(self, key: list[str], value: bytes) -> None:
        kind, *rest = key
        if kind == "routes":
            self.routes[rest[0]] = Ways.of(msgspec.json.decode(value, type=_Routes))
            self._ever.clear()
        elif kind == "baseline":
            life = (rest[0], int(rest[1]))
            first = msgspec.json.decode(value, type=dict[str, int])
            # Found again at the end: the topic's newest life is the one that was seen last.
            self.baselines[life] = {**self.baselines.pop(life, {}), **first}
        elif kind == "totals":
            life = (rest[0], int(rest[1]))
            found = msgspec.json.decode(value, type=Totals)
            self.totals[life] = max(self.totals.get(life, Totals()), found)
        elif kind == "line":
            self._follow((rest[0], int(rest[1])), msgspec.json.decode(value, type=Line))
        elif kind == "word":
            by = msgspec.json.decode(value, type=_Word).by
            self.words[rest[0], int(rest[1])] = by if by.isprintable() else "somebody"
        elif kind not in _NOT_ASKED:
            raise ValueError(kind)

    def _follow(self, of: tuple[str, int], line: Line) -> None:
        """Take in a line.  An older release's does not name those before; some may stand here still."""
        known = self.lines.get(of)
        if known is None:
            self.lines[of] = line
        elif known.epoch <= line.epoch:  # a zombie's word is not the last
            before = dict.fromkeys((*known.before, known.life, *line.before))
            line.before = tuple(life for life in before if life != line.life)
            self.lines[of] = line

    def followed(self, life: str, number: int) -> list[str]:
        """The lives of the same log up to `life`: each went on where the one before was given up."""
        for (first, n), line in self.lines.items():
            if n == number and life in (lives := [first, *line.before, line.life]):
                return lives[: lives.index(life) + 1]
        return [life]

    def destinations(self, event: str, digest: str) -> frozenset[Routed]:
        """Where events of this name went under the routes `digest`, which are known."""
        return self.routes[digest].to(event)

    def ever(self, event: str, otherwise: str) -> list[frozenset[Routed]]:
        """Where events of this name ever went: once for each way that differs.

        `otherwise` is the default database while no plan was ever written.
        """
        if event not in self._ever:
            found = dict.fromkeys(ways.to(event) for ways in self.routes.values())
            self._ever[event] = list(found) or [frozenset({_landing(otherwise, event)})]
        return self._ever[event]


@dataclass(frozen=True, slots=True)
class Ways:
    """One snapshot of the routes, laid out once by the event names that it names."""

    default: str
    by_name: Mapping[str, frozenset[Routed]]

    @classmethod
    def of(cls, routes: _Routes) -> "Ways":
        """The ways of `routes`."""
        found: dict[str, set[Routed]] = defaultdict(set)
        for r in routes.event_routes:
            typed = Routed(Place(r.database, r.schema, r.table), typed=True)
            found[r.event_name].add(typed if r.table else _landing(r.database, r.event_name))
        return cls(routes.default_database, {name: frozenset(places) for name, places in found.items()})

    def to(self, event: str) -> frozenset[Routed]:
        """Where events of this name went."""
        return self.by_name.get(event) or frozenset({_landing(self.default, event)})


def _landing(database: str, event: str) -> Routed:
    return Routed(Place(database, LANDING_SCHEMA, event), typed=False)
