"""Tracers and their results: evaluated from times, rows and the writer's states; no input or output.

A result is not final: a lost tracer whose row appears later becomes late, and a landed one whose second row
appears becomes a duplicate.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple


class Result(StrEnum):
    """The result of a tracer in one destination."""

    IN_FLIGHT = "in_flight"
    WAITING = "waiting"
    LOST = "lost"
    LANDED = "landed"
    LATE = "late"
    DUPLICATE = "duplicate"
    REFUSED = "refused"
    NOT_IN_LAKE = "not_in_lake"


#: Results of tracers whose row may still appear.
OPEN: Final = frozenset({Result.IN_FLIGHT, Result.WAITING, Result.LOST, Result.LATE, Result.NOT_IN_LAKE})
#: The name of the lake among destinations.  Its tables have no schema, those of databases have one.
LAKE: Final = "lake"


class Limits(NamedTuple):
    """Seconds after which a tracer without a row is late, and lost."""

    late: float
    lost: float


class Destination(NamedTuple):
    """A table of a database or of the lake, in which rows are found by the tracer's id."""

    database: str
    table: str

    @classmethod
    def in_lake(cls, table: str) -> "Destination":
        """Return a table of the lake."""
        return cls(LAKE, table)

    @property
    def is_in_lake(self) -> bool:
        """Return whether this is a table of the lake."""
        return self.database == LAKE and "." not in self.table

    @property
    def place(self) -> str:
        """Return the name of what may be unavailable: the database, or the table of the lake."""
        return str(self) if self.is_in_lake else self.database

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


@dataclass(slots=True)
class Watch:
    """A tracer in one destination."""

    result: Result = Result.IN_FLIGHT
    #: When its row was found (Unix seconds).
    landed_at: float | None = None
    #: When its database became available again (Unix seconds): its row is due from then on.
    due_from: float | None = None


@dataclass(slots=True)
class Tracer:
    """One event that was sent into one entrance; times are Unix seconds."""

    id: str
    entrance: str
    sent_at: float
    watches: dict[Destination, Watch] = field(default_factory=dict)
    accepted_at: float | None = None
    #: Why it was refused, without values.
    refusal: str | None = None


class Change(NamedTuple):
    """A tracer's new result in one destination."""

    tracer: Tracer
    destination: Destination
    result: Result


def refuse(tracer: Tracer, reason: str) -> Iterator[Change]:
    """Record that an entrance has refused the tracer."""
    tracer.refusal = reason
    for destination in tracer.watches:
        yield from _become(tracer, destination, Result.REFUSED)


def evaluate(
    tracer: Tracer,
    rows: Mapping[Destination, int],
    unavailable: Collection[str],
    now: float,
    limits: Limits,
    *,
    lake_seconds: float | None = None,
) -> Iterator[Change]:
    """Evaluate the tracer in the destinations that were read, and yield what changed.

    `lake_seconds`: the limit of tables of the lake; None if the lake was not read, and is not evaluated.
    `rows`: the number of its rows in each table that was read. `unavailable`: databases that are down, halted
    or draining according to the writer, or that the tracer itself cannot read; of the lake the table.
    """
    for destination, watch in tracer.watches.items():
        count, limit = rows.get(destination, 0), limits
        if destination.is_in_lake:
            if lake_seconds is None:
                continue
            limit = Limits(lake_seconds, lake_seconds)
        if count > 1:
            watch.landed_at = watch.landed_at or now
            yield from _become(tracer, destination, Result.DUPLICATE)
        elif count == 1:
            if watch.landed_at is None:
                watch.landed_at = now
                is_late = now - _due(tracer, watch) > limit.late
                yield from _become(tracer, destination, Result.LATE if is_late else Result.LANDED)
        elif watch.landed_at is None and watch.result is not Result.REFUSED:
            yield from _without_row(tracer, destination, unavailable, now, limit)


def _without_row(
    tracer: Tracer, destination: Destination, unavailable: Collection[str], now: float, limits: Limits
) -> Iterator[Change]:
    watch = tracer.watches[destination]
    if destination.place in unavailable:
        watch.due_from = now
        yield from _become(tracer, destination, Result.WAITING)
        return
    seconds = now - _due(tracer, watch)
    if watch.result is Result.WAITING:
        yield from _become(tracer, destination, Result.IN_FLIGHT)
    if seconds > limits.lost:
        if tracer.accepted_at is None:  # no entrance has promised to land it
            tracer.refusal = tracer.refusal or "no answer"
            yield from _become(tracer, destination, Result.REFUSED)
        else:
            result = Result.NOT_IN_LAKE if destination.is_in_lake else Result.LOST
            yield from _become(tracer, destination, result)
    elif seconds > limits.late and tracer.accepted_at is not None:
        yield from _become(tracer, destination, Result.LATE)


def _due(tracer: Tracer, watch: Watch) -> float:
    """Return the time from which the tracer's row is due."""
    return tracer.sent_at if watch.due_from is None else max(watch.due_from, tracer.sent_at)


def _become(tracer: Tracer, destination: Destination, result: Result) -> Iterator[Change]:
    watch = tracer.watches[destination]
    if watch.result is not result:
        watch.result = result
        yield Change(tracer, destination, result)
