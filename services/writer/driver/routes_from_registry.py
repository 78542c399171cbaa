"""Refreshes the registry, and builds the routes of a batch from the registry's destinations."""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence

from services.writer.model.routes import Contract, EventRoute, Grant, RoutedDatabase, Routes, SourceRoute
from services.writer.postgres.database import Database
from shared import wire
from shared.registry import Registry, entries
from shared.registry.entries import Destination, EventType, Snapshot
from shared.registry.known_databases import unknown_places

log = logging.getLogger(__name__)


def routes_of(snapshot: Snapshot, databases: Sequence[Database]) -> Routes:
    """Return the routes of `snapshot`; the first of `databases` is the default one."""
    default = databases[0].name
    routed = [
        (name, known, destination)
        for name, known in sorted(snapshot.event_types.items())
        for destination in known.database_destinations
    ]
    return Routes(
        default,
        places=tuple(RoutedDatabase(d.name, d.dbname, d.schemas) for d in databases),
        grants=tuple(_grant(grant, snapshot) for grant in snapshot.grants),
        event_routes=tuple(_route(name, destination, default) for name, _, destination in routed),
        # The first contract that covers a table wins: an event type's own, then those of the file in order.
        contracts=(
            *_contracts(routed, default),
            *(Contract(c.unknown_fields, c.database, c.db_schema, c.table) for c in snapshot.contracts),
        ),
        sources=tuple(SourceRoute(n, s.database or default) for n, s in sorted(snapshot.sources.items())),
    )


class CurrentRoutes:
    """The routes of the current registry, built once for each snapshot."""

    def __init__(self, databases: Sequence[Database]) -> None:
        self._databases = databases
        self._cached: tuple[Snapshot, Routes] | None = None

    def of(self, snapshot: Snapshot) -> Routes:
        """Return the routes of `snapshot`."""
        if self._cached is None or self._cached[0] is not snapshot:
            self._cached = snapshot, routes_of(snapshot, self._databases)
        return self._cached[1]


class RegistryRefresher:
    """Refreshes the registry in a thread, one refresh after the other.

    A refresh takes as long as Kafka waits for the leader of `onramp.registry`; meanwhile events are
    settled under the last snapshot.
    """

    def __init__(self, registry: Registry, topic: str = wire.REGISTRY) -> None:
        """`topic`: of the registry."""
        self.registry = registry
        self.topic = topic
        self._refreshing: asyncio.Task[bool] | None = None

    async def refresh(self, seconds: float) -> None:
        """Start a refresh and wait for it, `seconds` at most.  Return at once while one is overdue."""
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(asyncio.to_thread(self.registry.refresh))
            await asyncio.wait({self._refreshing}, timeout=seconds)
        if self._refreshing.done():
            ended, self._refreshing = self._refreshing, None
            if error := ended.exception():
                log.error("the registry could not be read; the previous one stays in use", exc_info=error)


def topics_of(snapshot: Snapshot) -> set[str]:
    """Return the topics of all event types: the writer reads them in addition to its pattern."""
    return {snapshot.topic_of(name) for name in snapshot.event_types}


def unusable(snapshot: Snapshot, databases: Sequence[Database]) -> dict[str, str]:
    """Return the places in the registry that this writer's settings do not allow, with the reasons.

    Only the events of those places wait or are refused: the rest of the snapshot is in force.
    """
    known = {d.name: d.schemas for d in databases}
    return unknown_places(snapshot, known, databases[0].name)


def _database(destination: Destination, default: str) -> str:
    return destination.vanity or destination.database or default


def _grant(grant: entries.Grant, snapshot: Snapshot) -> Grant:
    topic = grant.topic or snapshot.topic_of(grant.event_type or "")
    return Grant(topic, grant.database, grant.db_schema, grant.table)


def _route(name: str, destination: Destination, default: str) -> EventRoute:
    return EventRoute(
        name, _database(destination, default), destination.db_schema or "", destination.table or ""
    )


def _contracts(routed: Iterable[tuple[str, EventType, Destination]], default: str) -> Iterator[Contract]:
    for _, known, destination in routed:
        if "unknown_fields" in known.contract.model_fields_set and destination.table:
            yield Contract(
                known.contract.unknown_fields,
                _database(destination, default),
                destination.db_schema or "*",
                destination.table,
            )
