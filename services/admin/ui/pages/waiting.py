"""Waiting: events that have not landed and are not parked, why they wait, and what ends it."""

from collections.abc import Mapping
from shlex import quote
from typing import Annotated, Any, Final, Literal

from fastapi import Query
from fastapi.responses import Response

from services.admin.api.problems import not_stored
from services.admin.api.queries import State
from services.admin.ui.formats import quantity
from services.admin.ui.routes import Ui
from services.admin.ui.view import PageView, View
from services.admin.waiting_api.schemas import HaltDecision, HoldDecision, PartitionDecision

_Name = Annotated[str, Query(max_length=512)]
Act = Literal["resume", "dead-letter"]
_WORDS: Final = {"resume": "Resume", "dead-letter": "Park"}


def add(ui: Ui) -> None:
    """Add the routes."""

    @ui.get("/waiting")
    def show_waiting(view: View) -> Response:
        report = view.call("GET /v1/waiting").document
        halts = view.call("GET /v1/databases").document["databases"]
        partitions = view.part("Kafka", lambda: _partitions(view)) or []
        return view.page(
            "waiting.html",
            title="Waiting",
            nav="waiting",
            cli="onramp errors waiting",
            poll=5,
            report=report,
            halts=[each for each in halts if each["state"] != "answers"],
            partitions=partitions,
            events=sum(hold["waiting"] for hold in report["holds"]),
            may_decide=view.may("POST /v1/holds/resume"),
            words=_WORDS,
        )

    _add_holds(ui)
    _add_halts(ui)


def _add_holds(ui: Ui) -> None:
    @ui.get("/waiting/holds/{act}")
    def ask_hold(view: View, act: Act, database: _Name, kind: _Name, name: _Name) -> Response:
        hold = _hold(view, database, kind, name)
        way = next((way for way in hold["ways"] if way["how"] == act), None)
        if way is None:
            return view.go("/waiting")
        return view.confirm(
            title=f"{_WORDS[act]} {kind} {name} in {database}?",
            effect=f"{quantity(hold['waiting'], 'event waits', 'events wait')} there. {way['effect']}",
            button=_WORDS[act],
            action=f"/waiting/holds/{act}",
            back="/waiting",
            nav="waiting",
            cli=f"onramp types resume {quote(name)}"
            if act == "resume"
            else f"onramp types park {quote(name)} --reason WHY",
            fields={"database": database, "kind": kind, "name": name, "etag": hold["etag"]},
            ask=("reason", "Reason, stored in the audit log"),
            is_danger=act == "dead-letter",
        )

    @ui.post("/waiting/holds/{act}")
    def decide_hold(view: View, act: Act) -> Response:
        said = HoldDecision.model_validate(
            {name: view.form.get(name) for name in ("database", "kind", "name", "reason")}
            | {"actor": view.actor}
        )
        view.call(f"POST /v1/holds/{act}", said=said, state=state_of(view))
        return view.go("/waiting")


def _add_halts(ui: Ui) -> None:
    @ui.get("/waiting/databases/{how}")
    def ask_database(view: View, how: str, database: _Name) -> Response:
        states = view.call("GET /v1/databases").document["databases"]
        halt = next((each for each in states if each["database"] == database), None)
        way = _way(halt, how)
        return view.confirm(
            title=f"{how.capitalize()} the database {database}?",
            effect=f"{way['effect']} Cost: {way['cost']}",
            button=how.capitalize(),
            action=f"/waiting/databases/{how}",
            back="/waiting",
            nav="waiting",
            cli=_resolve_command(database, how),
            fields={"database": database, "etag": halt and halt["etag"]},
            ask=("reason", "Reason, stored in the audit log"),
            is_danger=how == "skip",
        )

    @ui.post("/waiting/databases/{how}")
    def resolve_database(view: View, how: str) -> Response:
        said = HaltDecision.model_validate(
            {"how": how, "reason": view.form.get("reason"), "actor": view.actor}
        )
        name = view.form.get("database", "")
        view.call("POST /v1/databases/{name}/resolve", name=name, said=said, state=state_of(view))
        return view.go("/waiting")

    @ui.get("/waiting/partitions/{how}")
    def ask_partition(view: View, how: str, partition: _Name) -> Response:
        found = view.call("GET /v1/partitions").document["partitions"]
        halt = next((each for each in found if each["partition"] == partition), None)
        way = _way(halt, how)
        return view.confirm(
            title=f"Continue with {partition}?",
            effect=f"{way['effect']} Cost: {way['cost']}",
            button="Continue",
            action=f"/waiting/partitions/{how}",
            back="/waiting",
            nav="waiting",
            cli=f"onramp partitions resolve {quote(partition)} accept",
            fields={"partition": partition, "etag": halt and halt["etag"]},
            ask=("reason", "Reason, stored in the audit log"),
            is_danger=True,
        )

    @ui.post("/waiting/partitions/{how}")
    def resolve_partition(view: View, how: str) -> Response:
        said = PartitionDecision.model_validate(
            {
                "how": how,
                "partition": view.form.get("partition"),
                "reason": view.form.get("reason"),
                "actor": view.actor,
            }
        )
        view.call("POST /v1/partitions/resolve", said=said, state=state_of(view))
        return view.go("/waiting")


def state_of(view: PageView) -> State:
    """Return the state that a form was made from."""
    return State([f'"{view.form.get("etag", "")}"'])


def _partitions(view: PageView) -> list[dict[str, Any]]:
    if not view.may("GET /v1/partitions"):
        return []
    found: list[dict[str, Any]] = view.call("GET /v1/partitions").document["partitions"]
    return found


def _hold(view: PageView, database: str, kind: str, name: str) -> dict[str, Any]:
    wanted = (database, kind, name)
    for hold in view.call("GET /v1/holds").document["holds"]:
        if (hold["database"], hold["kind"], hold["name"]) == wanted:
            return dict(hold)
    raise not_stored("hold")


def _way(halt: Mapping[str, Any] | None, how: str) -> Mapping[str, Any]:
    found = next((way for way in (halt["ways"] if halt else ()) if way["how"] == how), None)
    if found is None:
        raise not_stored("halt")
    return dict(found)


def _resolve_command(database: str, how: str) -> str:
    named = quote(database)
    commands = {
        "recheck": f"onramp databases resolve {named} recheck",
        "refill": f"onramp databases resolve {named} refill",
    }
    return commands.get(how, f"onramp databases resolve {named} skip")
