"""The routes of the lake: one immutable snapshot of its tables; a batch uses one snapshot.

The driver stores the snapshot by its digest on `onramp.lake` before the first commit of a batch.  So a range
that an earlier driver planned is finished with the routes of its plan.
"""

from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Final, NamedTuple, Self

import msgspec
import orjson

from shared import wire
from shared.lake.lake_tables import LakeTable, properties_of
from shared.registry.entries import Snapshot

_MAX_CACHED: Final = 8


class LakeRoute(NamedTuple):
    """An event type's table, and the topic of its events."""

    event_name: str
    topic: str
    table: LakeTable


@dataclass(frozen=True, slots=True)
class LakeRoutes:
    """The tables of event types; `is_all`: other events go to a table with their name."""

    routes: tuple[LakeRoute, ...] = ()
    _: KW_ONLY
    is_all: bool = False
    _digest: str = field(default="", init=False, repr=False, compare=False)

    def as_json(self) -> bytes:
        """Serialize the snapshot; equal snapshots have equal bytes."""
        return orjson.dumps({"routes": _plain(self.routes), "is_all": self.is_all})

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Parse the bytes of `as_json`.  Raise `msgspec.DecodeError`."""
        return msgspec.json.decode(text, type=cls)

    @property
    def digest(self) -> str:
        """The snapshot's identifier: 16 hex digits of its SHA-256."""
        if not self._digest:
            object.__setattr__(self, "_digest", sha256(self.as_json()).hexdigest()[:16])
        return self._digest


def _plain(value: object) -> object:
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


class LakeRouteLookup:
    """Looks up the table of an event name under `routes`."""

    def __init__(self, routes: LakeRoutes) -> None:
        self._tables = {route.event_name: route.table for route in routes.routes}
        self._taken = {route.table.name for route in routes.routes}
        self._is_all = routes.is_all

    def table_of(self, event_name: str, topic: str) -> LakeTable | None:
        """Return the table; None for an event that is not for the lake.

        An event without a route has no table if its name is the table of another type, or if it is on another
        topic than that of its name: a client could create any number of tables by the names of its events.
        """
        table = self._tables.get(event_name)
        is_own = self._is_all and event_name not in self._taken and topic == wire.topic_of(event_name)
        return LakeTable(event_name) if table is None and is_own else table


@lru_cache(maxsize=_MAX_CACHED)
def _cached(_digest: str, text: bytes) -> LakeRouteLookup:
    return LakeRouteLookup(LakeRoutes.from_json(text))


def lookup_for(routes: LakeRoutes) -> LakeRouteLookup:
    """Return the index of `routes`, cached by their digest."""
    return _cached(routes.digest, routes.as_json())


def routes_of(snapshot: Snapshot, *, is_all: bool) -> LakeRoutes:
    """Return the routes of the registry: types with a destination in the lake, or all types."""
    routes = []
    for table, name in snapshot.lake_tables(is_all=is_all).items():
        event_type = snapshot.event_types[name]
        options = event_type.lake
        properties = properties_of(event_type.json_schema)
        lake_table = LakeTable(table, options.partition, properties, options.keep_days)
        routes.append(LakeRoute(name, snapshot.topic_of(name), lake_table))
    return LakeRoutes(tuple(routes), is_all=is_all)


def starts_of(snapshot: Snapshot) -> dict[str, str]:
    """Return `earliest` or `now` for each event type."""
    return {name: event_type.lake.start for name, event_type in snapshot.event_types.items()}


def is_read(topic: str, routes: LakeRoutes) -> bool:
    """Return whether a topic may have events for the lake."""
    is_routed = any(route.topic == topic for route in routes.routes)
    return is_routed or (routes.is_all and topic.startswith(wire.EVENT_TOPIC_PREFIX))
