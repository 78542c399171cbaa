"""Reads `onramp.settled`: baselines, totals without a destination, the routes of the plans.

It is independent of the writer's reader, so that it reveals the writer's mistakes in this format.
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
#: Entries that the writer reads and the audit does not.
_IGNORED_MARKERS: Final = ("plan", "pin", "leader", "registry", "halt", "retire")


class Totals(NamedTuple):
    """One partition's totals below `next_offset` that no database counts: events, refused destinations.

    `holes`: offsets without a record.
    """

    next_offset: int = 0
    filtered: int = 0
    unroutable: int = 0
    refused: int = 0
    holes: int = 0


class Succession(msgspec.Struct):
    """The generation that a partition continues with by an operator's decision.

    `before` names the generations between it and the first, in their order.
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
    """The part of a snapshot that the audit needs."""

    default_database: str
    event_routes: list[_Route] = []
    sources: list[_SourceRoute] = []


class Routed(NamedTuple):
    """A table of an event.  A typed table has no receipts to find the event by."""

    table: Table
    typed: bool


@dataclass(slots=True)
class SettledLog:
    """The topic's entries, by (topic id, partition); routes by their digest."""

    baselines: dict[tuple[str, int], Mapping[str, int]] = field(default_factory=dict)
    totals: dict[tuple[str, int], Totals] = field(default_factory=dict)
    routes: dict[str, "RouteTable"] = field(default_factory=dict)
    #: The generation that a partition continues with, by (the topic's own id, partition).
    successions: dict[tuple[str, int], Succession] = field(default_factory=dict)
    #: The operator who answered the last halt, by (topic, partition).
    answered_by: dict[tuple[str, int], str] = field(default_factory=dict)
    #: Retired databases, whose totals are closed.
    retired: set[str] = field(default_factory=set)
    #: Foreign entries.
    foreign: int = 0
    _choices: dict[str, list[frozenset[Routed]]] = field(default_factory=dict)
    _of_changes: dict[str, set[str]] = field(default_factory=dict)

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Apply one entry; the furthest totals of several epochs count.

        Any client may write to the topic: invalid entries are skipped.
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
            # Moved to the end: the topic's newest generation is the one that was read last.
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
        elif kind not in _IGNORED_MARKERS:
            raise ValueError(kind)

    def _follow(self, generation: tuple[str, int], succession: Succession) -> None:
        """Apply an entry, which names all earlier generations."""
        known = self.successions.get(generation)
        if known is None or known.epoch <= succession.epoch:  # a zombie's entry is not the last
            self.successions[generation] = succession

    def followed(self, topic_id: str, partition: int) -> list[str]:
        """Return the ids of the same log up to `topic_id`, each the successor of the one before."""
        for (first, number), succession in self.successions.items():
            if number == partition and topic_id in (
                topic_ids := [first, *succession.before, succession.topic_id]
            ):
                return topic_ids[: topic_ids.index(topic_id) + 1]
        return [topic_id]

    def destinations(self, event: str, digest: str) -> frozenset[Routed]:
        """Return the tables of events of this name under the routes `digest`, which must be known."""
        return self.routes[digest].tables_of(event)

    def databases_of_changes(self, topic: str) -> set[str]:
        """Return all databases in which changes of a source's topic have landed."""
        if topic not in self._of_changes:
            self._of_changes[topic] = {
                database
                for routes in self.routes.values()
                for source, database in routes.sources
                if wire.is_change_topic(topic, source)
            }
        return self._of_changes[topic]

    def all_choices(self, event: str, otherwise: str) -> list[frozenset[Routed]]:
        """Return the distinct sets of tables that events of this name ever had.

        `otherwise` is the default database if no plan was written.
        """
        if event not in self._choices:
            choices = dict.fromkeys(routes.tables_of(event) for routes in self.routes.values())
            self._choices[event] = list(choices) or [frozenset({_landing(otherwise, event)})]
        return self._choices[event]


@dataclass(frozen=True, slots=True)
class RouteTable:
    """One snapshot of the routes, indexed by event name."""

    default: str
    by_name: Mapping[str, frozenset[Routed]]
    #: Sources, and the databases in which their changes land.
    sources: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, routes: _Routes) -> "RouteTable":
        """Index `routes`."""
        by_name: dict[str, set[Routed]] = defaultdict(set)
        for route in routes.event_routes:
            typed = Routed(Table(route.database, route.schema, route.table), typed=True)
            by_name[route.event_name].add(
                typed if route.table else _landing(route.database, route.event_name)
            )
        tables = {name: frozenset(of_name) for name, of_name in by_name.items()}
        return cls(routes.default_database, tables, tuple((s.name, s.database) for s in routes.sources))

    def tables_of(self, event: str) -> frozenset[Routed]:
        """Return the tables of events of this name."""
        return self.by_name.get(event) or frozenset({_landing(self.default, event)})


def _landing(database: str, event: str) -> Routed:
    return Routed(Table(database, LANDING_SCHEMA, event), typed=False)
