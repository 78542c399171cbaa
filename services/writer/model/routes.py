"""The routes: one immutable snapshot of where events go, by which a whole batch is sorted.

The driver takes it once per batch and keeps it by its digest in `onramp.settled`, so that
a range which a dead writer had planned is finished under the routes that it was planned with.

Patterns are globs (`*`, `?`, `[…]`) that must match whole and in exact case.
"""

from dataclasses import KW_ONLY, dataclass, field, fields
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Final, Literal, Self

import msgspec
import orjson

from shared import landing_table, wire
from shared.landing_table import is_closed

__all__ = [
    "OPEN_SCHEMAS",
    "Contract",
    "EventRoute",
    "Grant",
    "RoutedDatabase",
    "Routes",
    "SourceRoute",
    "is_closed",
]

#: The schemas of a database that messages may address unless its operator configures others.
OPEN_SCHEMAS: Final = landing_table.OPEN_SCHEMAS


@dataclass(frozen=True, slots=True)
class RoutedDatabase:
    """A configured database as messages address it: its public name, and the schemas that are open to them.

    `name` is the vanity.  `dbname` is the database's own name where that differs: a
    destination may have either in its `database`, and nothing else.
    """

    name: str
    dbname: str = ""
    schemas: tuple[str, ...] = OPEN_SCHEMAS


@dataclass(frozen=True, slots=True)
class Grant:
    """Packets on topics that match `topic` may address tables that match the other patterns."""

    topic: str
    database: str = "*"
    schema: str = "*"
    table: str = "*"


@dataclass(frozen=True, slots=True)
class EventRoute:
    """Events of this name go to this table; without a table, to their landing table in that database."""

    event_name: str
    database: str
    schema: str = ""
    table: str = ""


@dataclass(frozen=True, slots=True)
class SourceRoute:
    """The changes of this source land in this database."""

    name: str
    database: str


@dataclass(frozen=True, slots=True)
class Contract:
    """The rule for fields of an event that the tables which match these patterns have no column for.

    `freeze` parks the event; `discard` drops the fields and counts them.
    """

    unknown_fields: Literal["freeze", "discard"]
    database: str = "*"
    schema: str = "*"
    table: str = "*"


@dataclass(frozen=True, slots=True)
class Routes:
    """Where events go, and where packets may.

    `places` (the configured databases; the name is part of the stored format) empty: the default
    database alone, with `OPEN_SCHEMAS`.  A topic that no grant
    names may address the default database's `OPEN_SCHEMAS`, and nothing else: whoever may
    write to a topic may then land where its events land, but in no other team's schema.
    """

    default_database: str
    places: tuple[RoutedDatabase, ...] = ()
    grants: tuple[Grant, ...] = ()
    _: KW_ONLY
    event_routes: tuple[EventRoute, ...] = ()
    contracts: tuple[Contract, ...] = ()
    #: A packet that names more destinations than this is parked whole.
    max_destinations: int = 32
    sources: tuple[SourceRoute, ...] = ()
    #: A cache and no part of the snapshot: orjson leaves out names that begin with an underscore.
    _digest: str = field(default="", init=False, repr=False, compare=False)

    def as_json(self) -> bytes:
        """Serialize the snapshot; equal snapshots have equal bytes."""
        given = {f.name: getattr(self, f.name) for f in fields(self) if not f.name.startswith("_")}
        return orjson.dumps(given, option=orjson.OPT_SORT_KEYS)

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Parse the bytes of `as_json`.  Raise `msgspec.DecodeError`."""
        return msgspec.json.decode(text, type=cls)

    @property
    def digest(self) -> str:
        """The snapshot's name, 16 hex digits of its SHA-256; computed once and pickled with it."""
        if not self._digest:
            object.__setattr__(self, "_digest", sha256(self.as_json()).hexdigest()[:16])
        return self._digest

    def unconfigured(self) -> frozenset[str]:
        """Return the databases that the registry names and the writer's settings do not."""
        if not self.places:
            return frozenset()
        named = {r.database for r in self.event_routes} | {s.database for s in self.sources}
        return frozenset(named - {p.name for p in self.places})

    def reachable(self, topic: str) -> set[str]:
        """Return the names of all databases that a record on `topic` can be for."""
        routed = {self.default_database, *(r.database for r in self.event_routes)}
        routed |= {s.database for s in self.sources if wire.is_change_topic(topic, s.name)}
        granted = [g for g in self.grants if fnmatchcase(topic, g.topic)]
        return routed | {p.name for p in self.places if any(fnmatchcase(p.name, g.database) for g in granted)}
