"""A group of parked events: its evidence, its fix, and the rehearsal of the fix."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi.responses import Response

from services.admin.api.queries import EventQuery, Id, JobQuery
from services.admin.ui.fix_form import KINDS, FixForm, form_of_plan
from services.admin.ui.formats import command
from services.admin.ui.good_events import GoodEvents, Key
from services.admin.ui.json_lines import lines_of, value_at
from services.admin.ui.pages.parked import ask_decision, hours_of
from services.admin.ui.rehearsal import RUNNING, outcome_of
from services.admin.ui.routes import Ui
from services.admin.ui.view import PageView, View
from shared.errors import BAD_QUERY, TABLE, UserError
from shared.transform_replay import transform_of

_EVENTS: Final = 3
_ATTEMPTS: Final = 20
_POLL: Final = 5
_GOOD: Final = "GET /v1/groups/{number}/good"


def add(ui: Ui) -> None:
    """Add the routes."""
    ui.shell.calls.state.good_events = GoodEvents()

    @ui.get("/groups/{number}")
    def show_group(view: View, number: Id) -> Response:
        return group_page(view, number)

    @ui.get("/groups/{number}/good")
    def show_good(view: View, number: Id) -> Response:
        cause = view.call("GET /v1/groups/{number}", number=number).document["cause"]
        found = view.part("Kafka", lambda: view.call(_GOOD, number=number).document)
        if found is not None:
            view.state.good_events.put(_key_of(view, number), found["good"])
        if not view.is_polled:
            return view.go(f"/groups/{number}")
        good = _with_lines(found["good"], cause) if found else None
        return view.page("good.html", title="Good event", alone=True, good=good)

    @ui.get("/groups/{number}/decide/{decision}")
    def ask(view: View, number: Id, decision: str) -> Response:
        tag = view.call("GET /v1/groups/{number}", number=number).tag
        return ask_decision(view, decision, [tag.strip('"')])


def group_page(
    view: PageView, number: int, form: FixForm | None = None, *, problem: str = "", status: int = 200
) -> Response:
    """Return the page of a group; `form` is a fix as it was typed, with its `problem`."""
    group = view.call("GET /v1/groups/{number}", number=number).document
    cause, facets = group["cause"], group["facets"]
    place = place_of(cause)
    transform = transform_of(cause["destination"] or "")
    attempts = view.call("GET /v1/jobs", query=JobQuery(group=number, limit=_ATTEMPTS)).document["jobs"]
    job = _job_of(view, number, attempts)
    typed = form
    if typed is None:
        fix_text, to = (job["fix"], job["to"]) if job else (None, None)
        typed = form_of_plan(fix_text, to, place, with_triggers=bool(job and job["with_triggers"]))
    remembered = view.state.good_events.find(_key_of(view, number))
    is_running = job is not None and job["state"] in RUNNING
    fault = TABLE.get(cause["code"] or "")
    return view.page(
        "group.html",
        title=group["title"].replace("`", ""),
        nav="parked",
        cli=command("onramp errors groups", number),
        poll=(1 if is_running else _POLL) if form is None else 0,
        status=status,
        group=group,
        open_events=group["by_state"].get("open", 0),
        place=place,
        transform=transform,
        fix=fault.fix if fault else "",
        shapes=facets.get("shape", {"values": [], "others": 0}),
        hours=hours_of(facets, view),
        events=_events(view, number, cause),
        good=_with_lines(remembered.event, cause) if remembered else None,
        is_good_known=remembered is not None,
        form=typed,
        kinds=KINDS,
        problem=problem,
        job=job,
        outcome=outcome_of(job, transform) if job else None,
        samples=_samples(job, cause),
        attempts=attempts,
        last=attempts[0]["id"] if attempts else 0,
        may={
            name: view.may(operation)
            for name, operation in {
                "decide": "PATCH /v1/groups",
                "start": "POST /v1/jobs",
                "reveal": "POST /v1/events/{number}/reveal",
            }.items()
        },
    )


def place_of(cause: Mapping[str, Any]) -> str:
    """Return the JSON Pointer into the payload of the field at fault, or an empty text."""
    if cause["column"]:
        column: str = cause["column"]
        return "/" + column.replace("~", "~0").replace("/", "~1")
    place: str = cause["place"] or ""
    body = next((name for name in ("/payload/", "/data/") if place.startswith(name)), "")
    return place.removeprefix(body.removesuffix("/")) if body else ""


def _job_of(view: PageView, number: int, attempts: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the named rehearsal of the URL, else the last one of the group."""
    named = view.query.get("rehearsed", "")
    if named and not (named.isascii() and named.isdecimal() and len(named) < 19):  # noqa: PLR2004 - a bigint
        raise UserError(BAD_QUERY, "rehearsed: the number of a rehearsal")
    last = next((each["id"] for each in attempts if each["kind"] == "rehearse"), None)
    wanted = int(named) if named else last
    if not wanted:
        return None
    job: dict[str, Any] = view.call("GET /v1/jobs/{number}", number=wanted).document
    is_ours = job["kind"] == "rehearse" and job["filters"].get("group") == number
    return job if is_ours else None


def _events(view: PageView, number: int, cause: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the newest events with their shapes as lines."""
    newest = view.call("GET /v1/events", query=EventQuery(group=number, limit=_EVENTS)).document["events"]
    found = []
    for each in newest:
        shape = view.call("GET /v1/events/{number}", number=each["id"]).document["shape"]
        found.append({**each, "lines": lines_of(shape, cause["column"], cause["place"])})
    return found


def _with_lines(good: Mapping[str, Any] | None, cause: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a good event with its shape as lines."""
    return (
        None if good is None else {**good, "lines": lines_of(good["shape"], cause["column"], cause["place"])}
    )


def _key_of(view: PageView, number: int) -> Key:
    only = view.caller.only
    return number, None if only is None else tuple(only)


def _samples(job: Mapping[str, Any] | None, cause: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the samples of a rehearsal, each with the value of the field at fault and its row as lines."""
    found = []
    for each in job["samples"] if job else []:
        # Rehearsals of earlier releases have the edited event in the place of the row.
        row = each["row"] if "edited" in each else None
        value = value_at(row or each.get("edited", each["row"]), cause["column"], cause["place"])
        lines = lines_of(row, cause["column"], None) if row else []
        found.append({**each, "value": value, "lines": lines})
    return found
