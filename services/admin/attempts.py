"""Attempts at parked events, and the databases that are asked about them: the event's own, by destination.

What was refused has none.  The default database is asked, and once its writer has sorted it, the database
that it belongs to today: the same attempt is staged there, so one that is killed in between does it again.
Databases come by their names, the default one first.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import orjson

from shared import wire
from shared.errors import NOT_CONFIGURED, InfrastructureError

#: The writer's outcome of what belongs to another database; the reason says to which.
SORTED: Final = "sorted"


class Destination(NamedTuple):
    """A destination database: its name, and where it is."""

    name: str
    dsn: str


class Attempt(NamedTuple):
    """One attempt at one event: what it is known by, and how much of it there is."""

    id: int
    topic_id: str
    topic: str
    partition: int
    offset: int
    destination: str
    attempt: int
    parked_at: datetime
    size: int


class Found(NamedTuple):
    """What a database says of an attempt: its outcome and reason, else whether it is staged.

    `known`: the attempt of another job that the database knows, if that is not below this one or has landed.
    """

    id: int
    outcome: str | None
    reason: str | None
    staged: bool
    known: int | None = None


class Asked(NamedTuple):
    """What a database has said of attempts, or why it was not asked."""

    database: str
    attempts: Sequence[Attempt]
    found: Sequence[Found] = ()
    error: InfrastructureError | None = None


def everywhere(
    databases: Mapping[str, str],
    attempts: Sequence[Attempt],
    ask: Callable[[Destination, Sequence[Attempt]], Sequence[Found]],
) -> Iterator[Asked]:
    """Have `ask` ask each database that has something to say of `attempts`; yield what it said.

    Of what was sorted the database that it belongs to says what became of it.
    """
    of = {attempt.id: attempt for attempt in attempts}
    todo = deque(by_database(attempts, databases).items())
    while todo:
        name, some = todo.popleft()
        try:
            found = ask(destination_named(databases, name), some)
        except InfrastructureError as e:
            yield Asked(name, some, error=e)
            continue
        belonging: dict[str, list[Attempt]] = defaultdict(list)
        for each in found:
            if each.outcome == SORTED:
                belonging[_sorted_to(each)].append(of[each.id])
        todo.extend(belonging.items())
        yield Asked(name, some, [each for each in found if each.outcome != SORTED])


def destination_named(databases: Mapping[str, str], name: str) -> Destination:
    """Return where a database is.  Raises `InfrastructureError`: it is not configured any more."""
    if name not in databases:
        raise InfrastructureError(NOT_CONFIGURED, "events are marked for a database that is not configured")
    return Destination(name, databases[name])


def by_database(attempts: Sequence[Attempt], names: Iterable[str]) -> Mapping[str, list[Attempt]]:
    """Group attempts by the database to ask first; of those that none is named for under the empty name."""
    found: dict[str, list[Attempt]] = defaultdict(list)
    names = list(names)
    for attempt in attempts:
        found[database_of(attempt.destination, names)].append(attempt)
    return found


def database_of(destination: str, names: Iterable[str]) -> str:
    """Return the database of what was parked for a destination, the first of `names` if that has none.

    Empty: it is none of them.
    """
    names = list(names)
    if wire.is_refused(destination):
        return next(iter(names), "")
    return max((name for name in names if destination.startswith(f"{name}.")), key=len, default="")


def _sorted_to(found: Found) -> str:
    return str(orjson.loads(found.reason or "{}").get("database", ""))
