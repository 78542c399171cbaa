"""Jobs of a group: rehearse a fix, replay the rehearsed events, discard, restore."""

from hashlib import sha256
from typing import Any, Final

import orjson
from fastapi.responses import Response

from services.admin.api.queries import EventFilters, Id, JobRequest
from services.admin.ui.fix_form import FixForm, form_of
from services.admin.ui.formats import command, quantity
from services.admin.ui.pages.group import group_page, place_of
from services.admin.ui.rehearsal import RUNNING, outcome_of
from services.admin.ui.routes import Ui
from services.admin.ui.view import PageView, Question, View
from shared.errors import BAD_FIX, BAD_QUERY, NOT_STORED, SET_CHANGED, UserError
from shared.transform_replay import transform_of

_OPERATION: Final = "POST /v1/jobs"
_COMMANDS: Final = {
    "discard": "onramp errors discard",
    "restore": "onramp errors restore",
    "replay": "onramp errors replay",
}
_REASONS: Final = {
    "discard": "a test of the sender",
    "restore": "a test of the sender",
    "replay": "the function is corrected",
}
_REASON: Final = Question("reason", "Reason (it is logged)", is_required=True)


def add(ui: Ui) -> None:
    """Add the routes."""

    @ui.post("/groups/{number}/fix")
    def rehearse(view: View, number: Id) -> Response:
        group = view.call("GET /v1/groups/{number}", number=number).document
        form = form_of(view.form, place_of(group["cause"]))
        if view.form.get("press", "rehearse") != "rehearse":
            return group_page(view, number, form)
        try:
            job = _start_rehearsal(view, number, form)
        except UserError as e:
            if e.fault not in {BAD_FIX, BAD_QUERY, SET_CHANGED}:
                raise
            return group_page(view, number, form, problem=e.detail, status=e.fault.status or 422)
        return view.go(f"/groups/{number}", rehearsed=job)

    @ui.get("/groups/{number}/replay/{job}")
    def ask_replay(view: View, number: Id, job: Id) -> Response:
        return _ask_replay(view, number, job)

    @ui.post("/groups/{number}/replay/{job}")
    def replay(view: View, number: Id, job: Id) -> Response:
        rate = view.form.get("rate", "").strip()
        if rate and not (rate.isascii() and rate.isdecimal() and int(rate[:7]) > 0 and len(rate) <= 7):  # noqa: PLR2004
            return _ask_replay(view, number, job, problem="The rate is a whole number of events per second.")
        request = {
            "kind": "replay",
            "rehearsed": job,
            "reason": view.form.get("reason", ""),
            "rate": int(rate) if rate else None,
        }
        return view.go(f"/jobs/{start(view, request)}")

    for kind in _COMMANDS:
        _add_change(ui, kind)


def start(view: PageView, request: dict[str, Any], fix: str | None = None, once: str = "") -> int:
    """Start a job, and return its number; the same form that is sent twice starts one."""
    body = orjson.dumps([request, fix])
    asked = JobRequest.model_validate({**request, "actor": view.actor})
    document = view.call(
        _OPERATION, asked=asked, fix=fix, digest=sha256(body).digest(), key=once or view.once
    ).document
    return int(document["id"])


def _start_rehearsal(view: PageView, number: int, form: FixForm) -> int:
    fix = form.text
    request = {
        "kind": "rehearse",
        "filters": {"group": number},
        "reason": f"rehearsal of group {number}",
        "to": form.to or None,
        "with_triggers": form.with_triggers,
    }
    # The page is polled, and must not change by itself: its key is the last job that it shows.
    seed = orjson.dumps([view.form.get("last", ""), request, fix])
    return start(view, request, fix, once=sha256(seed).hexdigest()[:32])


def _ask_replay(view: PageView, number: int, job: int, problem: str = "") -> Response:
    found = view.call("GET /v1/jobs/{number}", number=job).document
    if found["kind"] != "rehearse" or found["filters"].get("group") != number:
        raise UserError(NOT_STORED, f"job {job} is no rehearsal of group {number}")
    if found["state"] in RUNNING:
        raise UserError(SET_CHANGED, f"rehearsal {job} is not done: it is {found['state']}")
    cause = view.call("GET /v1/groups/{number}", number=number).document["cause"]
    outcome = outcome_of(found, transform := transform_of(cause["destination"] or ""))
    fails = quantity(outcome.failed, "still fails and stays", "still fail and stay")
    stay = f" {fails} parked." if outcome.failed else ""
    is_there = quantity(outcome.there, "is in the table already and is", "are in the table already and are")
    there = f" {is_there} not added again." if outcome.there else ""
    events = quantity(found["counted"], "event")
    return view.confirm(
        title=f"Replay rehearsal {job}?",
        effect=f"Sends exactly the {events} of rehearsal {job} to "
        f"{'the writer' if transform is None else f'transform {transform}'}, with its fix. "
        f"{outcome.sentence}{there}{stay} After a cancel the rest stays parked.",
        button=f"Replay {events}",
        action=f"/groups/{number}/replay/{job}",
        back=f"/groups/{number}?rehearsed={job}",
        nav="parked",
        cli=command("onramp errors replay", rehearsed=job, reason="as rehearsed"),
        asks=[
            _REASON,
            Question("rate", "At most, events per second", kind="number", note="Empty: no limit."),
        ],
        problem=problem,
        status=422 if problem else 200,
    )


def _add_change(ui: Ui, kind: str) -> None:
    @ui.get(f"/groups/{{number}}/{kind}")
    def ask(view: View, number: Id) -> Response:
        return _ask_change(view, number, kind, "")

    @ui.post(f"/groups/{{number}}/{kind}")
    def change(view: View, number: Id) -> Response:
        count, upto = view.form.get("expect", ""), view.form.get("upto", "")
        if kind == "discard" and view.form.get("count", "").strip().replace(",", "") != count:
            return _ask_change(view, number, kind, "The typed number is not the number of events.")
        request = {"kind": kind, "filters": {"group": number}, "reason": view.form.get("reason", "")}
        return view.go(f"/jobs/{start(view, {**request, 'expect': count, 'upto': upto})}")


def _ask_change(view: PageView, number: int, kind: str, problem: str) -> Response:
    """Ask for a job on all events of a group; a replay without a rehearsal is for those of a transform."""
    cause = view.call("GET /v1/groups/{number}", number=number).document["cause"]
    transform = transform_of(cause["destination"] or "")
    if kind == "replay" and transform is None:
        raise UserError(NOT_STORED, f"group {number} is for a table: rehearse its replay first")
    counting = JobRequest(
        kind=kind,
        filters=EventFilters(group=number),
        reason="count",
        dry_run=True,
        actor=view.actor,
    )
    counted = view.call(_OPERATION, asked=counting, fix=None, digest=b"").document
    events, upto = counted["events"], counted["upto"]
    if not events:
        raise UserError(SET_CHANGED, f"group {number} has no event that a job could {kind}")
    effect = {
        "discard": f"Discards the {quantity(events, 'open event')} of group {number}: no replay takes them. "
        "They can be restored for seven days.",
        "restore": f"Opens the {quantity(events, 'discarded event')} of group {number} again.",
        "replay": f"Runs the deployed function of transform {transform} on the "
        f"{quantity(events, 'open event')} of group {number}. Events that fail again stay parked.",
    }[kind]
    typed = Question("count", f"Type the number of events ({events:,})", is_required=True)
    return view.confirm(
        title=f"{kind.capitalize()} {quantity(events, 'event')} of group {number}?",
        effect=effect,
        button=f"{kind.capitalize()} {quantity(events, 'event')}",
        action=f"/groups/{number}/{kind}",
        back=f"/groups/{number}",
        nav="parked",
        cli=command(_COMMANDS[kind], group=number, reason=_REASONS[kind]),
        fields={"expect": events, "upto": upto},
        asks=[typed, _REASON] if kind == "discard" else [_REASON],
        is_danger=kind == "discard",
        problem=problem,
        status=422 if problem else 200,
    )
