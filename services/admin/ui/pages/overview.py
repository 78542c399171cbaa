"""The Overview: the state of the services, the places of accepted events, and tasks for operators."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from fastapi.responses import Response

from services.admin.api.queries import GroupQuery
from services.admin.figures.locations import Locations
from services.admin.figures.reading import Line, Reading, TypeFigures
from services.admin.figures.status_sentence import status_of
from services.admin.ui import completeness, transforms_line
from services.admin.ui.charts import Part
from services.admin.ui.lake_tables import visible_lake
from services.admin.ui.routes import Ui
from services.admin.ui.view import Down, PageView, View
from shared.registry import Snapshot
from shared.wire import topic_of

_GROUPS: Final = 5
_TYPES: Final = 20
_MINUTES: Final = 60
#: States shown at the top of the list of types.
_NEEDS_ATTENTION: Final = frozenset({"paused", "blocked"})


def add(ui: Ui) -> None:
    """Add the routes."""

    @ui.get("/")
    def show_overview(view: View) -> Response:
        reading = _visible(view)
        locations = reading.locations
        sees_all = view.caller.only is None
        types = sorted(reading.types, key=_weight)
        return view.page(
            "overview.html",
            title="Overview",
            nav="overview",
            cli="onramp top",
            poll=5,
            reading=reading,
            locations=locations,
            sees_all=sees_all,
            health=status_of(
                reading, view.now, (*completeness.clauses(view), *transforms_line.clauses(view))
            ),
            transforms=transforms_line.of(view),
            tracers=view.state.tracers.reading,
            lake=visible_lake(view),
            statement=completeness.of_yesterday(view),
            parts=_parts(locations),
            groups=_groups(view),
            types=types[:_TYPES],
            page_of=_pages(view),
            further=max(len(types) - _TYPES, 0),
            has=view.shell.paths(),
        )

    @ui.get("/hour")
    def show_hour(view: View) -> Response:
        reading = _visible(view)
        first = reading.at - timedelta(minutes=_MINUTES)
        lines = zip(reading.accepted_line, reading.landed_line, reading.parked_line, strict=True)
        minutes = [(first + timedelta(minutes=n + 1), *rates) for n, rates in enumerate(lines)]
        return view.page(
            "hour.html",
            title="The last hour",
            nav="overview",
            cli="onramp top",
            reading=reading,
            minutes=[each for each in reversed(minutes) if any(rate is not None for rate in each[1:])],
        )


def _visible(view: PageView) -> Reading:
    """Return the last reading as far as the caller sees it, with a banner for each part that is down."""
    reading: Reading = view.state.figures.reading
    view.down += [Down(part.name, part.reason, part.since) for part in reading.down()]
    if view.caller.only is None:
        return reading
    types = tuple(each for each in reading.types if view.caller.sees(each.name))
    holds = tuple(h for h in reading.locations.holds if h.kind == "type" and view.caller.sees(h.name))
    locations = Locations(at=reading.locations.at, holds=holds)
    hidden: Line = (None,) * _MINUTES
    return Reading(
        at=reading.at,
        since=reading.since,
        accepted=_sum([each.accepted for each in types]),
        landed=_sum([each.landed for each in types]),
        accepted_line=hidden,
        landed_line=hidden,
        parked_line=hidden,
        types=types,
        parts=reading.parts,
        locations=replace(locations, open=sum(each.parked for each in types), replaying=0, not_stored=0),
    )


def _sum(rates: Sequence[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


def _groups(view: PageView) -> Sequence[dict[str, Any]]:
    result = view.part(
        "the control database",
        lambda: view.call("GET /v1/groups", query=GroupQuery(state="open", limit=_GROUPS)).document["groups"],
    )
    return result or []


def _pages(view: PageView) -> Callable[[str], str]:
    """Return the page of an event type; one without an entry in the registry has only its topic's page."""
    snapshot: Snapshot = view.state.registry()
    topics = {facts.topic for facts in view.state.figures.totals.topics}

    def page_of(name: str) -> str:
        if name in snapshot.event_types:
            return f"/types/{name}"
        topic = topic_of(name)
        return f"/topics/{topic}" if topic in topics else ""

    return page_of


def _weight(each: TypeFigures) -> tuple[bool, bool, float, str]:
    return (
        each.state not in _NEEDS_ATTENTION,
        not each.parked,
        -(each.accepted or 0.0) - (each.landed or 0.0),
        each.name,
    )


def _parts(locations: Locations) -> Sequence[Part]:
    """Return the parts of the bar; rare ones only if they have events."""
    rare = [("discarded", locations.discarded, "off"), ("not for the writer", locations.filtered, "off")]
    return [
        Part("landed", locations.landed or 0, "land"),
        Part("there already", locations.duplicates or 0, "there"),
        Part("in flight", locations.in_flight or 0, "flight"),
        Part("waiting", (locations.waiting_database or 0) + (locations.waiting_kafka or 0), "wait"),
        Part("parked", locations.parked or 0, "err"),
        *(Part(name, n, colour) for name, n, colour in rare if n),
    ]
