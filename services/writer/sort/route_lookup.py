"""Indexes routes for look-ups: once per state of the registry, not once per slice of records.

With a thousand event types the routes have thousands of entries and patterns, and a task
sorts one slice per partition.  A worker caches the indexes from batch to batch.
"""

import re
import threading
from collections import defaultdict
from collections.abc import Callable
from fnmatch import translate
from functools import partial
from operator import eq
from typing import Final

from services.writer.model.routes import (
    OPEN_SCHEMAS,
    Contract,
    EventRoute,
    Grant,
    RoutedDatabase,
    Routes,
    SourceRoute,
)
from services.writer.model.targets import FREEZE, Target
from services.writer.persist import landing_tables
from shared import wire

_Matches = Callable[[str], object]
_WILD: Final = frozenset("*?[")
#: Maximum cached indexes of a process: for the current routes, unfinished plans and waiting events.
_MAX_CACHED: Final = 8
_cache: dict[str, "RouteLookup"] = {}
_lock: Final = threading.Lock()


class RouteLookup:
    """Looks up the tables that events go to, and the tables that packets may address, under `routes`."""

    def __init__(self, routes: Routes) -> None:
        self.max_destinations: Final = routes.max_destinations
        self._default = routes.default_database
        databases = routes.places or (RoutedDatabase(routes.default_database),)
        self._databases = {d.name: d for d in reversed(databases)}  # the first of two with one name counts
        self._routes: dict[str, list[EventRoute]] = defaultdict(list)
        for route in routes.event_routes:
            self._routes[route.event_name].append(route)
        self._tables: dict[str, tuple[Target, ...]] = {}
        self._contracts = _Contracts(routes.contracts)
        self._grants = [(_matcher(g.topic), _Tables(g)) for g in routes.grants]
        self._granted: dict[str, list[_Tables]] = {}
        self._sources = routes.sources

    def source_of(self, topic: str) -> SourceRoute | None:
        """Return the source whose changes are on `topic`; None for a topic of events."""
        if not topic.startswith(wire.CHANGE_TOPIC_PREFIX):
            return None
        return next((s for s in self._sources if wire.is_change_topic(topic, s.name)), None)

    def database(self, name: str) -> RoutedDatabase | None:
        """Return the configured database with this vanity."""
        return self._databases.get(name)

    def tables_of(self, event_name: str) -> tuple[Target, ...]:
        """Return the tables that events of this name go to, each once; by default the landing table."""
        if event_name not in self._routes:
            return (Target(self._default, landing_tables.SCHEMA, event_name),)
        if event_name not in self._tables:
            targets = [self._target(r) for r in self._routes[event_name]]
            self._tables[event_name] = tuple(dict.fromkeys(targets))
        return self._tables[event_name]

    def _target(self, route: EventRoute) -> Target:
        if route.table:
            return self.typed(route.database, route.schema, route.table)
        return Target(route.database, landing_tables.SCHEMA, route.event_name)

    def typed(self, database: str, schema: str, table: str) -> Target:
        """Return the target for an existing table; the first contract that covers it applies."""
        target = Target(database, schema, table, typed=True)
        return target._replace(unknown_fields=self._contracts.of(target))

    def allows(self, topic: str, target: Target) -> bool:
        """Return whether a packet on `topic` may address `target`."""
        if topic not in self._granted:
            self._granted[topic] = [tables for matches, tables in self._grants if matches(topic)]
        if granted := self._granted[topic]:
            return any(tables.cover(target) for tables in granted)
        return target.database == self._default and target.schema in OPEN_SCHEMAS


class _Tables:
    """The tables that a pattern covers."""

    def __init__(self, pattern: Grant | Contract) -> None:
        self._matches = [_matcher(p) for p in (pattern.table, pattern.schema, pattern.database)]

    def cover(self, target: Target) -> bool:
        table, schema, database = self._matches
        return bool(table(target.table) and schema(target.schema) and database(target.database))


class _Contracts:
    """Contracts in order; contracts without a wildcard are indexed by their table's name."""

    def __init__(self, contracts: tuple[Contract, ...]) -> None:
        self._by_table: dict[str, list[tuple[int, _Tables, str]]] = defaultdict(list)
        self._others: list[tuple[int, _Tables, str]] = []
        for i, contract in enumerate(contracts):
            entries = self._others if _WILD & set(contract.table) else self._by_table[contract.table]
            entries.append((i, _Tables(contract), contract.unknown_fields))

    def of(self, target: Target) -> str:
        """Return `freeze` or `discard`, the rule for fields without a column in `target`."""
        lists = (self._by_table.get(target.table, ()), self._others)
        first = [next(((i, rule) for i, t, rule in entries if t.cover(target)), None) for entries in lists]
        return min((f for f in first if f), default=(0, FREEZE))[1]


def lookup_for(routes: Routes) -> RouteLookup:
    """Return the index of `routes`, from the cache of the `_MAX_CACHED` last used indexes if possible."""
    with _lock:
        if (lookup := _cache.pop(routes.digest, None)) is None:
            lookup = RouteLookup(routes)
            while len(_cache) >= _MAX_CACHED:
                del _cache[next(iter(_cache))]
        _cache[routes.digest] = lookup  # the most recently used index comes last
        return lookup


def _matcher(pattern: str) -> _Matches:
    """Return a case-sensitive test of whole names against the glob; fnmatch caches only 256 patterns."""
    if _WILD & set(pattern):
        return re.compile(translate(pattern)).match
    return partial(eq, pattern)
