"""The document of the tracer's `/status`, which `onramp tracer status` and the admin service read."""

from datetime import datetime

import msgspec


class TracerHour(msgspec.Struct, frozen=True):
    """The tracers of one hour: their number by result, and the slowest that landed."""

    hour: datetime
    results: dict[str, int]
    slowest_seconds: float | None = None


class TracerCell(msgspec.Struct, frozen=True, kw_only=True):
    """One entrance and one destination: the last result, and those of a day."""

    entrance: str
    destination: str
    result: str
    sent_at: datetime
    #: From sending to the row, of the last tracer; None without a row.
    seconds: float | None = None
    #: Why the entrance refuses tracers now.
    refusal: str | None = None
    #: Tracers of the last day by result.
    day: dict[str, int] = {}
    #: The hours of that day that have tracers, the oldest first.
    hours: tuple[TracerHour, ...] = ()


class TracerStatus(msgspec.Struct, frozen=True):
    """All entrances and destinations of a tracer."""

    tracers: tuple[TracerCell, ...] = ()
