"""Output of `onramp top`: rates of types and databases, from two readings of both services."""

import time
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Generic

from services.cli.show.tables import table_of
from shared.figures import GatewayFigures, WriterFigures, gateway_growth, writer_growth, writer_totals
from shared.service_pages import Figures

if TYPE_CHECKING:
    from rich.console import Group


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
    """All figures between two readings."""

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


@dataclass(frozen=True, slots=True)
class Pair(Generic[Figures]):
    """Two readings of one service, and the seconds between them; None: it has never answered."""

    before: Figures | None
    now: Figures | None
    seconds: float

    def rate(self, events: float) -> float:
        """Return the events per second."""
        return events / (self.seconds or 1.0)


def view_of(gateway: Pair[GatewayFigures], writer: Pair[WriterFigures]) -> View:
    """Return the figures between two readings of both services."""
    types, databases = _types(gateway, writer), _databases(writer)
    return View(
        in_per_second=sum(each.in_per_second for each in types),
        out_per_second=sum(each.out_per_second for each in types),
        parked_per_second=sum(each.parked_per_second for each in types),
        request_p99_seconds=_p99(gateway),
        lag_age_seconds=_lag_age(writer.now),
        types=types,
        databases=databases,
    )


def _p99(gateway: Pair[GatewayFigures]) -> float | None:
    if gateway.before is None or gateway.now is None:
        return None
    return gateway.now.request_seconds.since(gateway.before.request_seconds).p99()


def _lag_age(writer: WriterFigures | None) -> float | None:
    return max(time.time() - writer.lag_read, 0.0) if writer and writer.lag_read else None


def _types(gateway: Pair[GatewayFigures], writer: Pair[WriterFigures]) -> list[TypeLine]:
    accepted = _accepted(gateway)
    growth = _by_type_and_outcome(_growth(writer))
    totals = _by_type_and_outcome(Counter(writer_totals(writer.now) if writer.now else {}))
    lags = writer.now.types if writer.now else {}
    names = accepted.keys() | {name for name, _ in totals} | lags.keys()
    return [
        TypeLine(
            event_type=name,
            in_per_second=gateway.rate(accepted[name]),
            out_per_second=writer.rate(growth[name, "landed"]),
            parked_per_second=writer.rate(growth[name, "parked"]),
            parked=totals[name, "parked"],
            lag_events=lags[name].lag_events if name in lags else 0,
            lag_seconds=lags[name].lag_seconds or 0.0 if name in lags else 0.0,
        )
        for name in sorted(names)
    ]


def _accepted(gateway: Pair[GatewayFigures]) -> Counter[str]:
    """Return the accepted events by type; 0 for a type of which none was accepted meanwhile."""
    result: Counter[str] = Counter()
    if gateway.before is not None and gateway.now is not None:
        for (name, outcome), n in gateway_growth(gateway.before, gateway.now).items():
            if outcome == "accepted":
                result[name] += n
    return result


def _growth(writer: Pair[WriterFigures]) -> Counter[tuple[str, str, str]]:
    if writer.before is None or writer.now is None:
        return Counter()
    return writer_growth(writer_totals(writer.before), writer_totals(writer.now))


def _by_type_and_outcome(events: Counter[tuple[str, str, str]]) -> Counter[tuple[str, str]]:
    result: Counter[tuple[str, str]] = Counter()
    for (name, _, outcome), n in events.items():
        result[name, outcome] += n
    return result


def _databases(writer: Pair[WriterFigures]) -> list[DatabaseLine]:
    landed: Counter[str] = Counter()
    for (_, database, outcome), n in _growth(writer).items():
        landed[database] += n if outcome == "landed" else 0
    return [
        DatabaseLine(
            database=name,
            state=each.state,
            out_per_second=writer.rate(landed[name]),
            waiting=each.waiting_kafka + each.waiting_database,
            oldest_waiting_seconds=max(each.oldest_kafka_seconds, each.oldest_database_seconds),
            connections=each.connections or 0,
        )
        for name, each in sorted(writer.now.databases.items() if writer.now else ())
    ]


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
