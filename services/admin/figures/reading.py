"""One reading of all figures: a page renders from one, so that no two numbers differ for one thing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from services.admin.figures.locations import NO_LOCATIONS, Locations
from services.admin.figures.parts import Part
from shared.figures import WriterDatabase

#: Events per second by minute of an hour, the oldest first; None where unknown.
Line = Sequence[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeFigures:
    """One event type; rates are events per second, None while their service is unknown."""

    name: str
    accepted: float | None
    landed: float | None
    accepted_line: Line
    #: Parked events that need an operator: open or replaying.
    parked: int
    lag_events: int = 0
    lag_seconds: float | None = None
    #: landing, paused, blocked, waiting or idle.
    state: str = "idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseFigures:
    """One database of the writer."""

    name: str
    landed: float | None
    landed_line: Line
    writer: WriterDatabase


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The figures at one time."""

    at: datetime
    #: Start of the hour, which begins again when the service restarts.
    since: datetime
    accepted: float | None = None
    rejected: float | None = None
    landed: float | None = None
    duplicates: float | None = None
    parked: float | None = None
    accepted_line: Line = ()
    landed_line: Line = ()
    parked_line: Line = ()
    #: 99th percentile from receipt to commit over the last minute (seconds).
    commit_p99: float | None = None
    request_p99: float | None = None
    writer_state: str = ""
    writer_reason: str = ""
    types: tuple[TypeFigures, ...] = ()
    databases: tuple[DatabaseFigures, ...] = ()
    halted_partitions: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()
    locations: Locations = NO_LOCATIONS

    def down(self) -> tuple[Part, ...]:
        """Return the parts that do not answer."""
        return tuple(part for part in self.parts if not part.is_up)
