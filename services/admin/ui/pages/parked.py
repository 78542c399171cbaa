"""Parked: groups of events with one cause each, by state; many can be decided about at once."""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

from fastapi.responses import Response

from services.admin.api.queries import GroupQuery, GroupsChange, GroupState
from services.admin.ui.formats import command, href, moment
from services.admin.ui.routes import Ui
from services.admin.ui.view import PageView, Question, View
from shared.errors import BAD_REQUEST, GROUP_CHANGED, UserError

HOURS: Final = 24
_TABS: Final = ("open", "acknowledged", "ignored", "resolved")
#: An ETag of a group begins with its number.
_TAG: Final = re.compile(r"(\d{1,18})-[0-9a-f]{8}")


class _Decision(NamedTuple):
    """A decision about groups: its verb, its effect, and the member of the change."""

    verb: str
    effect: str
    change: Mapping[str, str]


_DECISIONS: Final[Mapping[str, _Decision]] = {
    "acknowledge": _Decision(
        "Acknowledge",
        "The mark shows that an operator works on the group. Its events stay parked.",
        {"state": GroupState.ACKNOWLEDGED},
    ),
    "ignore": _Decision(
        "Ignore",
        "The group leaves the list of open ones, also when it gets further events. Its events stay parked.",
        {"state": GroupState.IGNORED},
    ),
    "resolve": _Decision(
        "Resolve", "The group opens again with its next event.", {"state": GroupState.RESOLVED}
    ),
    "open": _Decision("Open", "The group returns to the list of open ones.", {"state": GroupState.OPEN}),
    "assign": _Decision("Assign", "The name appears with the group. An empty name removes it.", {}),
}


def add(ui: Ui) -> None:
    """Add the routes."""

    @ui.get("/parked")
    def list_groups(view: View) -> Response:
        query = GroupQuery.model_validate({"state": "open", **view.filters, "facets": True})
        found = view.call("GET /v1/groups", query=query).document
        filters = query.model_dump(exclude={"limit", "facets"}, exclude_none=True)
        without_page = {name: value for name, value in filters.items() if name != "cursor"}
        return view.page(
            "parked.html",
            title="Parked",
            nav="parked",
            cli=command(
                "onramp errors groups",
                state=filters["state"],
                event=query.event_name,
                destination=query.destination,
            ),
            poll=5,
            groups=found["groups"],
            cursor=found["next"],
            filters={"cursor": None, "event_name": "", "destination": "", "code": "", **filters},
            tabs=[
                (
                    state.capitalize(),
                    href("/parked", **{**without_page, "state": state}),
                    found["states"].get(state, 0),
                    state == filters["state"],
                )
                for state in _TABS
            ],
            hours_of=lambda group: hours_of(group["facets"], view),
            may_change=view.may("PATCH /v1/groups"),
        )

    @ui.post("/parked/decide")
    def ask(view: View) -> Response:
        tags = [value for name, value in view.fields if name == "group"]
        if not tags:
            raise UserError(BAD_REQUEST, "no group is selected: select groups by their boxes")
        return ask_decision(view, view.form.get("decision", ""), tags)

    @ui.post("/parked/change")
    def change(view: View) -> Response:
        decision, tags = view.form.get("decision", ""), view.form.get("groups", "").split()
        given: dict[str, Any] = dict(_decision(decision).change)
        if decision == "assign":
            given["assignee"] = view.form.get("assignee", "").strip() or None
        groups = [{"id": number, "etag": tag} for number, tag in zip(_numbers(tags), tags, strict=True)]
        reason = view.form.get("reason", "").strip() or None
        try:
            view.call(
                "PATCH /v1/groups",
                change=GroupsChange.model_validate(
                    {"groups": groups, "actor": view.actor, "reason": reason, **given}
                ),
            )
        except UserError as e:
            if e.fault is not GROUP_CHANGED:
                raise
            fresh = [
                view.call("GET /v1/groups/{number}", number=number).tag.strip('"')
                for number in _numbers(tags)
            ]
            return ask_decision(view, decision, fresh, problem=f"{e.detail}. Look again, then decide.")
        return view.go(f"/groups/{groups[0]['id']}") if len(groups) == 1 else view.go("/parked")


def ask_decision(view: PageView, decision: str, tags: Sequence[str], problem: str = "") -> Response:
    """Return the confirmation page of a decision about groups, which their ETags name."""
    verb, effect, _ = _decision(decision)
    numbers = _numbers(tags)
    one = f"group {numbers[0]}" if len(numbers) == 1 else f"{len(numbers)} groups"
    reason = Question("reason", "Reason (optional; it is logged)")
    return view.confirm(
        title=f"{verb} {one}?",
        effect=(f"Groups {', '.join(map(str, numbers))}. " if len(numbers) > 1 else "") + effect,
        button=f"{verb} {one}",
        action="/parked/change",
        back=f"/groups/{numbers[0]}" if len(numbers) == 1 else "/parked",
        nav="parked",
        fields={"groups": " ".join(tags), "decision": decision},
        asks=[Question("assignee", "Assign to"), reason] if decision == "assign" else [reason],
        problem=problem,
        status=GROUP_CHANGED.status or 412 if problem else 200,
    )


def hours_of(facets: Mapping[str, Any], view: PageView) -> list[int]:
    """Return the events of each of the last hours, oldest first."""
    hours, last = [0] * HOURS, view.now.replace(minute=0, second=0, microsecond=0)
    for each in facets.get("hour", {"values": []})["values"]:
        back = (last - moment(each["value"])) // timedelta(hours=1)
        if 0 <= back < HOURS:
            hours[-1 - back] = each["events"]
    return hours


def _decision(name: str) -> _Decision:
    if name not in _DECISIONS:
        raise UserError(BAD_REQUEST, f"there is no such decision: {', '.join(_DECISIONS)} are the known ones")
    return _DECISIONS[name]


def _numbers(tags: Sequence[str]) -> list[int]:
    found = [_TAG.fullmatch(tag) for tag in tags]
    if not all(found):
        raise UserError(BAD_REQUEST, "a group is named by its number and a digest")
    return [int(each[1]) for each in found if each]
