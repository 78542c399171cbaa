"""The tracer's state: the last result of each entrance in each destination, and the day's counts."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from services.tracer.results import Destination, Result, Tracer


def status(tracers: Iterable[Tracer], refusals: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return one entry for each entrance and destination, of tracers in the order sent."""
    cells: dict[tuple[str, Destination], list[Tracer]] = {}
    for tracer in tracers:
        for destination in tracer.watches:
            cells.setdefault((tracer.entrance, destination), []).append(tracer)
    return [
        _cell(entrance, destination, each, refusals.get(entrance))
        for (entrance, destination), each in sorted(cells.items())
    ]


def _cell(
    entrance: str, destination: Destination, tracers: list[Tracer], refusal: str | None
) -> dict[str, Any]:
    """Return an entry; a tracer that is still in flight is no result yet, if an earlier one has one."""
    counts = Counter(t.watches[destination].result.value for t in tracers)
    done = [t for t in tracers if t.watches[destination].result is not Result.IN_FLIGHT]
    last = (done or tracers)[-1]
    watch = last.watches[destination]
    seconds = None if watch.landed_at is None else round(watch.landed_at - last.sent_at, 3)
    return {
        "entrance": entrance,
        "destination": str(destination),
        "result": watch.result.value,
        "sent_at": datetime.fromtimestamp(last.sent_at, UTC).isoformat(),
        "seconds": seconds,
        "refusal": refusal,
        "day": dict(sorted(counts.items())),
    }
