"""What `onramp.settled` says: baselines, totals without a destination, the routes of the plans.

A reading of its own, not the writer's: a mistake of the writer's in this format must show.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from services.ops.findings import Table
from shared import wire
from shared.parse_errors import UNREADABLE

LANDING_SCHEMA: Final = "events"
#: Entries that the writer asks for and the audit does not.
_NOT_ASKED: Final = ("plan", "pin", "leader", "halt", "retire")


class Totals(NamedTuple):
    """What no database counts of one partition, below `next_offset`: events, and refused destinations."""

    next_offset: int = 0
    filtered: int = 0
    unroutable: int = 0
    refused: int = 0


class Succession(msgspec.Struct):
    """The generation that a partition goes on with by an operator's decision.

    `before` names those between it and the first, in their order.
    """

    epoch: int
    topic_id: str = msgspec.field(name="life")  # the topic's format has this word
    before: tuple[str, ...] = ()


class _Answer(msgspec.Struct):
    how: str
    by: str


class _Retired(msgspec.Struct):
    upto: dict[int, int] | None = None


class _Route(msgspec.Struct):
    event_name: str
    database: str
    schema: str = ""
    table: str = ""


class _SourceRoute(msgspec.Struct):
    name: str
    database: str


class _Routes(msgspec.Struct):
    """As much of a snapshot as the audit asks of it."""

    default_database: str
    event_routes: list[_Route] = []
    sources: list[_SourceRoute] = []


class Routed(NamedTuple):
    """A table that an event goes to.  In a typed table it cannot be found by its receipt."""

    table: Table
    typed: bool


@dataclass(slots=True)
class SettledLog:
    """The topic's entries, by (topic id, partition); routes by their digest."""

    baselines: dict[tuple[str, int], Mapping[str, int]] = field(default_factory=dict)
    totals: dict[tuple[str, int], Totals] = field(default_factory=dict)
    routes: dict[str, "RouteTable"] = field(default_factory=dict)
    #: Which generation a partition goes on with, by (the topic's own id, partition).
    successions: dict[tuple[str, int], Succession] = field(default_factory=dict)
    #: Who answered the last halt, by (topic, partition).
    answered_by: dict[tuple[str, int], str] = field(default_factory=dict)
    #: Databases that an operator has retired: their books are closed.
    retired: set[str] = field(default_factory=set)
    #: Entries that nobody of Onramp's has written.
    foreign: int = 0
    _choices: dict[str, list[frozenset[Routed]]] = field(default_factory=dict)
    _of_changes: dict[str, set[str]] = field(default_factory=dict)

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
            self.routes[rest[0]] = RouteTable.of(msgspec.json.decode(value, type=_Routes))
            self._choices.clear()
            self._of_changes.clear()
        elif kind == "baseline":
            generation = (rest[0], int(rest[1]))
            first = msgspec.json.decode(value, type=dict[str, int])
            # Found again at the end: the topic's newest generation is the one that was seen last.
            self.retired -= first.keys() - self.baselines.get(generation, {}).keys()
            self.baselines[generation] = {**self.baselines.pop(generation, {}), **first}
        elif kind == "totals":
            generation = (rest[0], int(rest[1]))
            totals = msgspec.json.decode(value, type=Totals)
            self.totals[generation] = max(self.totals.get(generation, Totals()), totals)
        elif kind == "line":
            self._follow((rest[0], int(rest[1])), msgspec.json.decode(value, type=Succession))
        elif kind == "word":
            by = msgspec.json.decode(value, type=_Answer).by
            self.answered_by[rest[0], int(rest[1])] = by if by.isprintable() else "somebody"
        elif kind == "retired":
            if msgspec.json.decode(value, type=_Retired).upto is not None:
                self.retired.add(rest[0])
        elif kind not in _NOT_ASKED:
            raise ValueError(kind)

    def _follow(self, generation: tuple[str, int], succession: Succession) -> None:
        """Take in an entry, which names all generations before."""
        known = self.successions.get(generation)
        if known is None or known.epoch <= succession.epoch:  # a zombie's entry is not the last
            self.successions[generation] = succession

    def followed(self, topic_id: str, partition: int) -> list[str]:
        """Return the ids of the same log up to `topic_id`: each went on where the one before was given up."""
        for (first, number), succession in self.successions.items():
            if number == partition and topic_id in (
                topic_ids := [first, *succession.before, succession.topic_id]
            ):
                return topic_ids[: topic_ids.index(topic_id) + 1]
        return [topic_id]

    def destinations(self, event: str, digest: str) -> frozenset[Routed]:
        """Return where events of this name went under the routes `digest`, which must be known."""
        return self.routes[digest].tables_of(event)

    def databases_of_changes(self, topic: str) -> set[str]:
        """Return the databases in which changes on a source's topic ever landed."""
        if topic not in self._of_changes:
            self._of_changes[topic] = {
                database
                for routes in self.routes.values()
                for source, database in routes.sources
                if wire.is_change_topic(topic, source)
            }
        return self._of_changes[topic]

    def all_choices(self, event: str, otherwise: str) -> list[frozenset[Routed]]:
        """Return where events of this name ever went: once for each choice that differs.

        `otherwise` is the default database while no plan was ever written.
        """
        if event not in self._choices:
            choices = dict.fromkeys(routes.tables_of(event) for routes in self.routes.values())
            self._choices[event] = list(choices) or [frozenset({_landing(otherwise, event)})]
        return self._choices[event]


@dataclass(frozen=True, slots=True)
class RouteTable:
    """One snapshot of the routes, laid out once by the event names that it names."""

    default: str
    by_name: Mapping[str, frozenset[Routed]]
    #: Sources, and the databases in which their changes land.
    sources: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, routes: _Routes) -> "RouteTable":
        """Lay out `routes`."""
        by_name: dict[str, set[Routed]] = defaultdict(set)
        for route in routes.event_routes:
            typed = Routed(Table(route.database, route.schema, route.table), typed=True)
            by_name[route.event_name].add(
                typed if route.table else _landing(route.database, route.event_name)
            )
        tables = {name: frozenset(of_name) for name, of_name in by_name.items()}
        return cls(routes.default_database, tables, tuple((s.name, s.database) for s in routes.sources))

    def tables_of(self, event: str) -> frozenset[Routed]:
        """Return where events of this name went."""
        return self.by_name.get(event) or frozenset({_landing(self.default, event)})


def _landing(database: str, event: str) -> Routed:
    return Routed(Table(database, LANDING_SCHEMA, event), typed=False)
