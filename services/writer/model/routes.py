"""The routes: one immutable snapshot of the tables that events go to; a whole batch is sorted by it.

The driver takes the snapshot once per batch and stores it by its digest in `onramp.settled`.  So a
range that a dead writer planned is finished under the routes of its plan.

Patterns are globs (`*`, `?`, `[…]`) that must match the whole name, case-sensitively.
"""

from dataclasses import KW_ONLY, dataclass, field, fields
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Final, Literal, Self

import msgspec
import orjson

from shared import landing_columns, wire
from shared.landing_columns import is_closed

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
OPEN_SCHEMAS: Final = landing_columns.OPEN_SCHEMAS


@dataclass(frozen=True, slots=True)
class RoutedDatabase:
    """A configured database as messages address it: its public name, and the schemas that are open to them.

    `name` is the vanity.  `dbname` is the database's own name if that differs.  The `database` of a
    destination must be one of the two.
    """

    name: str
    dbname: str = ""
    schemas: tuple[str, ...] = OPEN_SCHEMAS


@dataclass(frozen=True, slots=True)
class Grant:
    """Permits packets on topics that match `topic` to address tables that match the other patterns."""

    topic: str
    database: str = "*"
    schema: str = "*"
    table: str = "*"


@dataclass(frozen=True, slots=True)
class EventRoute:
    """A route of an event name to a table; without a table, to its landing table in the database."""

    event_name: str
    database: str
    schema: str = ""
    table: str = ""


@dataclass(frozen=True, slots=True)
class SourceRoute:
    """A route of a source's changes to a database."""

    name: str
    database: str


@dataclass(frozen=True, slots=True)
class Contract:
    """The rule for fields of an event without a column in the tables that match these patterns.

    `freeze` parks the event; `discard` drops and counts the fields.
    """

    unknown_fields: Literal["freeze", "discard"]
    database: str = "*"
    schema: str = "*"
    table: str = "*"


@dataclass(frozen=True, slots=True)
class Routes:
    """The tables that events go to, and the tables that packets may address.

    `places`: the configured databases (the name is part of the stored format).  If empty, only the default
    database is configured, with `OPEN_SCHEMAS`.  A topic without a grant may address only the default
    database's `OPEN_SCHEMAS`: a client with write access to a topic can then land where the topic's events
    land, but in no other team's schema.
    """

    default_database: str
    places: tuple[RoutedDatabase, ...] = ()
    grants: tuple[Grant, ...] = ()
    _: KW_ONLY
    event_routes: tuple[EventRoute, ...] = ()
    contracts: tuple[Contract, ...] = ()
    #: Maximum destinations of a packet; a packet with more is parked whole.
    max_destinations: int = 32
    sources: tuple[SourceRoute, ...] = ()
    #: A cache, not a part of the snapshot: orjson omits names that begin with an underscore.
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
        """The snapshot's identifier: 16 hex digits of its SHA-256, computed once and pickled with it."""
        if not self._digest:
            object.__setattr__(self, "_digest", sha256(self.as_json()).hexdigest()[:16])
        return self._digest

    def unconfigured(self) -> frozenset[str]:
        """Return the databases that the registry names but the writer's settings do not configure."""
        if not self.places:
            return frozenset()
        named = {r.database for r in self.event_routes} | {s.database for s in self.sources}
        return frozenset(named - {p.name for p in self.places})

    def reachable(self, topic: str) -> set[str]:
        """Return the names of all databases that a record on `topic` can go to."""
        routed = {self.default_database, *(r.database for r in self.event_routes)}
        routed |= {s.database for s in self.sources if wire.is_change_topic(topic, s.name)}
        granted = [g for g in self.grants if fnmatchcase(topic, g.topic)]
        return routed | {p.name for p in self.places if any(fnmatchcase(p.name, g.database) for g in granted)}
