"""The first line of the Overview: a sentence that names the faults, if there are any."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from services.admin.figures.reading import Reading
from services.admin.figures.totals_watch import LASTS_SECONDS

#: Kinds of banners, the worst last.
_KINDS: Final = ("ok", "info", "wait", "err")
_MAX_NAMES: Final = 3
#: States of a database in which the writer lands nothing.
_AWAY: Final = frozenset({"out", "halted"})
#: The page about whatever waits.
_WAITING: Final = "/waiting"


@dataclass(frozen=True, slots=True)
class Clause:
    """One sentence: a headline, further words, and the page that has more, as a path below /ui."""

    kind: str
    headline: str
    rest: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class Status:
    """The sentences in the order of their weight; `kind` is that of the worst."""

    clauses: tuple[Clause, ...]
    kind: str = field(init=False)

    def __post_init__(self) -> None:
        """Derive the kind."""
        worst = max((clause.kind for clause in self.clauses), key=_KINDS.index)
        object.__setattr__(self, "kind", worst)


def status_of(reading: Reading, now: datetime, further: Sequence[Clause] = ()) -> Status:
    """Return the status at `now`; `further` sentences follow, and then not all is well."""
    if reading.locations.at is None and not reading.down() and not further:
        return Status(
            (Clause("info", "The figures are being read.", "This takes a few seconds after a start."),)
        )
    result = (
        *_unreachable(reading),
        *_holds(reading),
        *_differing(reading, now),
        *further,
        *_parked(reading),
    )
    return Status(result or (Clause("ok", "All is well.", _flow(reading)),))


def _flow(reading: Reading) -> str:
    locations = reading.locations
    if locations.waiting is None or locations.in_flight is None:
        return "Every event that could be read is in its place."
    moving = f"{locations.in_flight:,} are on their way" if locations.in_flight else "none is on its way"
    return f"None of {locations.accepted or 0:,} accepted events waits or needs an operator, and {moving}."


def _unreachable(reading: Reading) -> Iterator[Clause]:
    unread = _unread(reading)
    for part in reading.down():
        waiting = "Its events wait" if part.kind == "database" else "Its figures are older"
        rest = unread if unread and part.kind == "database" else f"{waiting} until it does."
        yield Clause("wait", f"{_capital(part.name)} does not answer.", rest, _WAITING)
    for database in reading.databases:
        state, waits = database.writer.state, database.writer.waiting_kafka + database.writer.waiting_database
        if state == "halted":
            reason = database.writer.reason or "an operator decides how it continues"
            yield Clause(
                "err",
                f"Database {database.name} is halted.",
                f"{_count(waits, 'event waits', 'events wait')}: {reason}.",
                _WAITING,
            )
        elif state == "out":
            rest = f"{_count(waits, 'event waits', 'events wait')} for it; the writer tries again by itself."
            rest = f"{unread} {rest}" if unread else rest
            yield Clause("wait", f"The writer does not reach database {database.name}.", rest, _WAITING)
    if halted := len(reading.halted_partitions):
        rest = "Their events wait until an operator resolves them."
        yield Clause("err", f"{_count(halted, 'partition is', 'partitions are')} halted.", rest, _WAITING)


def _unread(reading: Reading) -> str:
    """Return why events are in flight and do not wait, while the writer reaches no database; else nothing."""
    states = {database.writer.state for database in reading.databases}
    if not states or states - _AWAY or not reading.locations.in_flight:
        return ""
    events = _count(reading.locations.in_flight, "event is", "events are")
    return f"{events} in flight: the writer reads no further on Kafka until a database answers."


def _holds(reading: Reading) -> Iterator[Clause]:
    holds = reading.locations.holds
    paused = [held for held in holds if held.kind == "type" and held.state == "paused"]
    if paused:
        waits = sum(held.waiting for held in paused)
        rest = (
            f"{_names([held.name for held in paused])} had too large a share of parked events; "
            f"{_count(waits, 'event waits', 'events wait')} until an operator resumes it."
        )
        yield Clause(
            "wait", f"{_count(len(paused), 'event type is', 'event types are')} paused.", rest, _WAITING
        )
    blocked = [held for held in holds if held.kind == "table" and held.state == "blocked"]
    if blocked:
        waits = sum(held.waiting for held in blocked)
        rest = f"{_count(waits, 'event waits', 'events wait')} for {_names([held.name for held in blocked])}."
        headline = f"{_count(len(blocked), 'table takes', 'tables take')} no rows."
        yield Clause("wait", headline, rest, _WAITING)


def _differing(reading: Reading, now: datetime) -> Iterator[Clause]:
    locations = reading.locations
    since = locations.difference_since
    if locations.difference and since and (now - since).total_seconds() >= LASTS_SECONDS:
        words = "in no known place" if locations.difference > 0 else "counted more than once"
        headline = f"{_count(abs(locations.difference), 'accepted event is', 'accepted events are')} {words}"
        rest = " ".join(f"{_capital(problem)}." for problem in locations.problems)
        rest = rest or "Run `onramp audit` to find them."
        yield Clause("err", f"{headline}, since {since:%H:%M} UTC.", rest, "/reconciliation")


def _parked(reading: Reading) -> Iterator[Clause]:
    if parked := reading.locations.parked:
        text = _count(parked, "parked event needs", "parked events need")
        yield Clause("wait", f"{text} an operator.", "", "/parked")


def _count(n: int, one: str, many: str) -> str:
    return f"{n:,} {one if n == 1 else many}"


def _names(names: list[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:_MAX_NAMES])
    return shown if len(names) <= _MAX_NAMES else f"{shown} and {len(names) - _MAX_NAMES:,} others"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
