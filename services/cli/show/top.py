"""Output of `onramp top`: rates of types and databases, from two scrapes of both services."""

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from services.cli.show.tables import table_of
from shared import wire
from shared.metric_pages import Scrape, p99, rates

if TYPE_CHECKING:
    from rich.console import Group

_ACCEPTED: Final = "onramp_ingest_events_total"
_OUTCOMES: Final = "onramp_writer_events_total"
_STATE: Final = "onramp_writer_database_state"
_LAG_READ: Final = "onramp_writer_lag_timestamp_seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeLine:
    """One event type: events per second, total of parked events, and lag of its topic."""

    event_type: str
    in_per_second: float
    out_per_second: float
    parked_per_second: float
    parked: int
    lag_events: int
    lag_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseLine:
    """One database: its state, its landing rate and its waiting events."""

    database: str
    state: str
    out_per_second: float
    waiting: int
    oldest_waiting_seconds: float
    connections: int


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All figures between two scrapes."""

    in_per_second: float
    out_per_second: float
    parked_per_second: float
    request_p99_seconds: float | None
    #: Age of the lag figures, which the writer reads periodically; None before the first.
    lag_age_seconds: float | None
    types: list[TypeLine]
    databases: list[DatabaseLine]

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


def view_of(before: Scrape, now: Scrape) -> View:
    """Return the figures between two scrapes of both services."""
    types, databases = _types(before, now), _databases(before, now)
    return View(
        in_per_second=sum(each.in_per_second for each in types),
        out_per_second=sum(each.out_per_second for each in types),
        parked_per_second=sum(each.parked_per_second for each in types),
        request_p99_seconds=p99(before, now, "onramp_ingest_request_seconds"),
        lag_age_seconds=_lag_age(now),
        types=types,
        databases=databases,
    )


def _lag_age(now: Scrape) -> float | None:
    read_at = max(now.sums(_LAG_READ, "").values(), default=0.0)
    return max(time.time() - read_at, 0.0) if read_at else None


def _types(before: Scrape, now: Scrape) -> list[TypeLine]:
    taken = rates(before, now, _ACCEPTED, "event_type", outcome="accepted")
    landed = rates(before, now, _OUTCOMES, "event_type", outcome="landed")
    parking = rates(before, now, _OUTCOMES, "event_type", outcome="parked")
    parked = now.sums(_OUTCOMES, "event_type", outcome="parked")
    events = _by_type(now.sums("onramp_writer_lag_events", "topic"))
    ages = _by_type(now.maxima("onramp_writer_lag_seconds", "topic"))
    return [
        TypeLine(
            event_type=name,
            in_per_second=taken.get(name, 0.0),
            out_per_second=landed.get(name, 0.0),
            parked_per_second=parking.get(name, 0.0),
            parked=int(parked.get(name, 0)),
            lag_events=int(events.get(name, 0)),
            lag_seconds=ages.get(name, 0.0),
        )
        for name in sorted(taken.keys() | landed.keys() | parked.keys() | events.keys())
    ]


def _by_type(topics: dict[str, float]) -> dict[str, float]:
    """Return values by event type instead of by topic, for topics with default names."""
    return {topic.removeprefix(wire.topic_of("")): value for topic, value in topics.items()}


def _databases(before: Scrape, now: Scrape) -> list[DatabaseLine]:
    landed = rates(before, now, _OUTCOMES, "database", outcome="landed")
    waiting = now.sums("onramp_writer_waiting_events", "database")
    oldest = now.maxima("onramp_writer_oldest_waiting_seconds", "database")
    sessions = now.sums("onramp_writer_connections", "database")
    return [
        DatabaseLine(
            database=name,
            state=state,
            out_per_second=landed.get(name, 0.0),
            waiting=int(waiting.get(name, 0)),
            oldest_waiting_seconds=oldest.get(name, 0.0),
            connections=int(sessions.get(name, 0)),
        )
        for name, state in sorted(_states(now).items())
    ]


def _states(now: Scrape) -> dict[str, str]:
    return {s.labels["database"]: s.labels["state"] for s in now.samples if s.name == _STATE and s.value == 1}


def tables_of(view: View, problems: list[str]) -> "Group":
    """Return the view as tables for a terminal."""
    from rich.console import Group
    from rich.text import Text

    slowest = "none" if view.request_p99_seconds is None else f"{view.request_p99_seconds * 1000:,.0f} ms"
    age = "unknown" if view.lag_age_seconds is None else f"of {view.lag_age_seconds:.0f} s ago"
    head = (
        f"in {view.in_per_second:,.0f}/s   out {view.out_per_second:,.0f}/s   "
        f"parked {view.parked_per_second:,.0f}/s   p99 of requests {slowest}   lag {age}"
    )
    lines = [Text(head), *(Text(problem) for problem in problems)]
    return Group(*lines, Text(), _types_table(view), Text(), _databases_table(view))


def _types_table(view: View) -> Any:
    rows = [
        (
            each.event_type or "(packets)",
            f"{each.in_per_second:,.0f}",
            f"{each.out_per_second:,.0f}",
            f"{each.parked:,}",
            f"{each.lag_events:,}",
            f"{each.lag_seconds:,.0f} s",
        )
        for each in view.types
    ]
    numbers = ("IN/S", "OUT/S", "PARKED EVER", "LAG", "LATE")
    return table_of(("TYPE", *numbers), rows, numbers)


def _databases_table(view: View) -> Any:
    rows = [
        (
            each.database,
            each.state,
            f"{each.out_per_second:,.0f}",
            f"{each.waiting:,}",
            f"{each.oldest_waiting_seconds:,.0f} s",
            str(each.connections),
        )
        for each in view.databases
    ]
    numbers = ("OUT/S", "WAITING", "OLDEST", "SESSIONS")
    return table_of(("DATABASE", "STATE", *numbers), rows, numbers)
