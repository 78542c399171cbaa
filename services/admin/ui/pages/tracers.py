"""Tracers: each entrance in each destination with the last result, its latency, and the hours of a day."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

from fastapi import Query
from fastapi.responses import Response

from services.admin.figures.tracers_watch import POLL_SECONDS, TracersReading
from services.admin.ui.routes import Ui
from services.admin.ui.view import Down, PageView, View
from shared.errors import NOT_STORED, UserError
from shared.tracer_status import TracerCell, TracerHour

_HOURS: Final = 24
#: Colours of an hour by its worst result, the worst first.
_COLOURS: Final = {
    "lost": "err",
    "duplicate": "err",
    "refused": "err",
    "not_in_lake": "err",
    "late": "wait",
    "waiting": "wait",
    "landed": "land",
    "in_flight": "flight",
}
_KINDS: Final = {
    "landed": "ok",
    "late": "wait",
    "waiting": "wait",
    "in_flight": "info",
    "lost": "err",
    "duplicate": "err",
    "refused": "err",
    "not_in_lake": "err",
}


def add(ui: Ui) -> None:
    """Add the routes."""

    @ui.get("/tracers")
    def show_tracers(view: View) -> Response:
        reading = _reading(view)
        return view.page(
            "tracers.html",
            title="Tracers",
            nav="tracers",
            cli="onramp tracer status",
            poll=round(POLL_SECONDS),
            reading=reading,
            databases=sorted({_database(cell) for cell in reading.cells}),
            rows=_matrix(reading.cells, view.now),
            bad=reading.bad,
            kinds=_KINDS,
        )

    @ui.get("/tracers/day")
    def show_day(
        view: View,
        entrance: Annotated[str, Query(max_length=512)],
        destination: Annotated[str, Query(max_length=512)],
    ) -> Response:
        reading = _reading(view)
        place = entrance, destination
        cell = next((each for each in reading.cells if (each.entrance, each.destination) == place), None)
        if cell is None:
            raise UserError(NOT_STORED, f"no tracer is sent into {entrance} for {destination}")
        return view.page(
            "tracers_day.html",
            title=f"{entrance} → {destination}",
            nav="tracers",
            cli="onramp tracer status --json",
            reading=reading,
            cell=cell,
            results=[name for name in _COLOURS if any(name in hour.results for hour in cell.hours)],
            kinds=_KINDS,
        )


def _reading(view: PageView) -> TracersReading:
    reading: TracersReading = view.state.tracers.reading
    view.down += [Down(part.name, part.reason, part.since) for part in reading.down()]
    return reading


def _database(cell: TracerCell) -> str:
    return cell.destination.partition(".")[0]


def _matrix(cells: Iterable[TracerCell], now: datetime) -> list[tuple[str, dict[str, list[Any]]]]:
    """Return the rows: each entrance with its cells by database."""
    rows: dict[str, dict[str, list[Any]]] = {}
    for cell in cells:
        found = rows.setdefault(cell.entrance, {}).setdefault(_database(cell), [])
        found.append((cell, cell.destination.partition(".")[2], _colours(cell.hours, now)))
    return list(rows.items())


def _colours(hours: Sequence[TracerHour], now: datetime) -> list[str]:
    """Return the colour of each of the last 24 hours, the oldest first."""
    by_hour = {each.hour: each.results for each in hours}
    this = now.replace(minute=0, second=0, microsecond=0)
    return [_worst(by_hour.get(this - timedelta(hours=n), {})) for n in reversed(range(_HOURS))]


def _worst(results: Mapping[str, int]) -> str:
    return next((colour for name, colour in _COLOURS.items() if results.get(name)), "ground")
