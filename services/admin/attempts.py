"""Attempts at parked events, and the databases that know them: the event's own, by destination.

A refused event has no destination.  The default database is queried, and once its writer has routed the
event, its database of today: the same attempt is staged there, so an interrupted step is repeated.
Databases are given by name, the default one first.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import orjson

from shared import wire
from shared.errors import NOT_CONFIGURED, InfrastructureError
from shared.transform_replay import transform_of

#: The writer's outcome for an event of another database, which the reason names.
SORTED: Final = "sorted"


class Destination(NamedTuple):
    """A destination database: its name and DSN."""

    name: str
    dsn: str


class Attempt(NamedTuple):
    """One attempt at one event: its identity and size."""

    id: int
    topic_id: str
    topic: str
    partition: int
    offset: int
    destination: str
    attempt: int
    parked_at: datetime
    size: int


class AttemptState(NamedTuple):
    """A database's state of an attempt: its outcome and reason, or whether it is staged.

    `known`: another job's attempt that the database knows, if it is not below this one or has landed.
    `row`: the row of a rehearsed event as Postgres' JSON, if it was requested and would land.
    """

    id: int
    outcome: str | None
    reason: str | None
    staged: bool
    known: int | None = None
    row: str | None = None


class PendingAttempts:
    """Attempts by the database to query; one that was routed to another database is queued for it."""

    def __init__(self, databases: Iterable[str], attempts: Sequence[Attempt]) -> None:
        self._by_id = {attempt.id: attempt for attempt in attempts}
        self._queue = deque(by_database(attempts, databases).items())

    def __iter__(self) -> Iterator[tuple[str, list[Attempt]]]:
        """Yield a database's name and its attempts until none is left."""
        while self._queue:
            yield self._queue.popleft()

    def without_routed(self, states: Sequence[AttemptState]) -> list[AttemptState]:
        """Return the states that are this database's; queue the attempts that were routed to others."""
        routed: dict[str, list[Attempt]] = defaultdict(list)
        for state in states:
            if state.outcome == SORTED:
                routed[_sorted_to(state)].append(self._by_id[state.id])
        self._queue.extend(routed.items())
        return [state for state in states if state.outcome != SORTED]


def by_transform(attempts: Iterable[Attempt]) -> tuple[dict[str, list[Attempt]], list[Attempt]]:
    """Return the attempts by the destination that names their transform, and all others."""
    of_transforms: dict[str, list[Attempt]] = defaultdict(list)
    others: list[Attempt] = []
    for attempt in attempts:
        is_transformed = transform_of(attempt.destination) is not None
        (of_transforms[attempt.destination] if is_transformed else others).append(attempt)
    return of_transforms, others


def destination_named(databases: Mapping[str, str], name: str) -> Destination:
    """Return a database by name.  Raises `InfrastructureError` if it is no longer configured."""
    if name not in databases:
        raise InfrastructureError(NOT_CONFIGURED, "events are marked for a database that is not configured")
    return Destination(name, databases[name])


def by_database(attempts: Sequence[Attempt], names: Iterable[str]) -> Mapping[str, list[Attempt]]:
    """Group attempts by the database to query first; the empty name holds those without a database."""
    found: dict[str, list[Attempt]] = defaultdict(list)
    names = list(names)
    for attempt in attempts:
        found[database_of(attempt.destination, names)].append(attempt)
    return found


def database_of(destination: str, names: Iterable[str]) -> str:
    """Return the database of a destination, or the first of `names` if the destination has none.

    Empty if the database is not among `names`.
    """
    names = list(names)
    if wire.is_refused(destination):
        return next(iter(names), "")
    return max((name for name in names if destination.startswith(f"{name}.")), key=len, default="")


def of_retired(database: str, attempts: Sequence[Attempt], states: Mapping[str, bool]) -> list[Attempt]:
    """Return the attempts of a retired database; `states`: whether each known database is retired.

    `database`: the database of all `attempts`, or empty if they are of databases that are not configured.
    The longest known name that a destination begins with is its database: `main.b` is not `main`.
    """
    if database:
        return list(attempts) if states.get(database) else []
    found = by_database([a for a in attempts if not wire.is_refused(a.destination)], states)
    return [a for name, of_name in found.items() if states.get(name) for a in of_name]


def _sorted_to(found: AttemptState) -> str:
    return str(orjson.loads(found.reason or "{}").get("database", ""))
