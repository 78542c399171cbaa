"""One immutable snapshot of where events go: what a batch is sorted by, from start to end.

The driver takes it once per batch and keeps it by its digest in `onramp.settled`, so that
a range which a dead writer had planned is finished under the routes that it began with.

Patterns are globs (`*`, `?`, `[…]`) that must match whole and in exact case.
"""

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Final, Literal, Self

import msgspec
import orjson

#: What a database lets messages address unless its operator says otherwise.
OPEN_SCHEMAS: Final = ("events", "public")
#: Schemas that no configuration opens: Postgres' own, and ours.
_CLOSED: Final = frozenset({"information_schema", "onramp"})
_CLOSED_PREFIX: Final = "pg_"


def is_closed(schema: str) -> bool:
    """Whether no message and no registry may ever write to `schema`."""
    return schema in _CLOSED or schema.startswith(_CLOSED_PREFIX)


@dataclass(frozen=True, slots=True)
class RoutedDatabase:
    """A configured database as messages see it: its public name, and what they may address.

    `name` is the vanity.  `dbname` is the database's own name where that differs: a
    destination may say either in its `database`, and nothing else.
    """

    name: str
    dbname: str = ""
    schemas: tuple[str, ...] = OPEN_SCHEMAS


@dataclass(frozen=True, slots=True)
class Grant:
    """Packets on topics like `topic` may address tables like these."""

    topic: str
    database: str = "*"
    schema: str = "*"
    table: str = "*"


@dataclass(frozen=True, slots=True)
class EventRoute:
    """Events of this name go to this table; without a table, to the database's landing table."""

    event_name: str
    database: str
    schema: str = ""
    table: str = ""


@dataclass(frozen=True, slots=True)
class Contract:
    """What becomes of an event's fields that tables like these have no column for.

    `freeze` parks the event; `discard` drops the fields and counts them.
    """

    unknown_fields: Literal["freeze", "discard"]
    database: str = "*"
    schema: str = "*"
    table: str = "*"


@dataclass(frozen=True, slots=True)
class Routes:
    """Where events go, and where packets may.

    `places` empty: the default database alone, with `OPEN_SCHEMAS`.  A topic that no grant
    names may address the default database's `OPEN_SCHEMAS`, and nothing else: whoever may
    write to a topic may then land where its events land, but in no other team's schema.
    """

    default_database: str
    places: tuple[RoutedDatabase, ...] = ()
    grants: tuple[Grant, ...] = ()
    event_routes: tuple[EventRoute, ...] = ()
    contracts: tuple[Contract, ...] = ()
    #: A packet that names more destinations than this is parked whole.
    max_destinations: int = 32
    #: No part of the snapshot: JSON leaves out what begins with an underscore.
    _digest: str = field(default="", init=False, repr=False, compare=False)

    def as_json(self) -> bytes:
        """The snapshot's bytes; equal snapshots have equal bytes."""
        return orjson.dumps(self, option=orjson.OPT_SORT_KEYS)

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """The snapshot of `as_json`."""
        return msgspec.json.decode(text, type=cls)

    @property
    def digest(self) -> str:
        """The snapshot's name: made once, and it travels with the snapshot to the tasks."""
        if not self._digest:
            object.__setattr__(self, "_digest", sha256(self.as_json()).hexdigest()[:16])
        return self._digest

    def reachable(self, topic: str) -> set[str]:
        """Every database that a record on `topic` can be for."""
        routed = {self.default_database, *(r.database for r in self.event_routes)}
        mine = [g for g in self.grants if fnmatchcase(topic, g.topic)]
        return routed | {p.name for p in self.places if any(fnmatchcase(p.name, g.database) for g in mine)}
