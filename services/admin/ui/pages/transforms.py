"""Transforms: lag, outcomes and state of each; one with its failures, its versions, pause and rollback."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, NamedTuple

from fastapi import Query
from fastapi.responses import Response

from services.admin.api.problems import not_stored
from services.admin.api.queries import GroupQuery, State
from services.admin.figures.transforms_watch import POLL_SECONDS, TransformsReading
from services.admin.registry_api.schemas import Said
from services.admin.registry_api.transforms import RollbackSaid, TransformName
from services.admin.ui.charts import Part
from services.admin.ui.formats import command, quantity
from services.admin.ui.pages.waiting import state_of
from services.admin.ui.routes import Ui
from services.admin.ui.view import Down, PageView, View
from shared.wire import TRANSFORM_DESTINATION

_VERSIONS: Final = "GET /v1/transforms/{name}/versions"
_MAX_VERSIONS: Final = 20
_MAX_GROUPS: Final = 50
#: Digits of a version's digest that are shown, as on the command line.
DIGITS: Final = 12
_Digest = Annotated[str, Query(pattern="^[0-9a-f]{4,64}$")]


class _Act(NamedTuple):
    """A change of a transform's state: its question, its button, its effect, and the query of its route."""

    question: str
    button: str
    effect: str
    query: Mapping[str, bool] = {}


_ACTS: Final[Mapping[str, _Act]] = {
    "pause": _Act(
        "Pause {}?", "Pause", "Its runs end within a second. New events wait on Kafka until it is resumed."
    ),
    "resume": _Act(
        "Resume {}?", "Resume", "It goes on with the event after the last one that it has processed."
    ),
    "accept": _Act(
        "Resume {} with loss?",
        "Resume with loss",
        "A position outside of the log moves to the log's nearest end. The transform never gets the events "
        "between.",
        {"accept": True},
    ),
}


def add(ui: Ui) -> None:
    """Add the routes."""

    @ui.get("/transforms")
    def list_transforms(view: View) -> Response:
        view.require("GET /v1/transforms")
        reading = _reading(view)
        return view.page(
            "transforms.html",
            title="Transforms",
            nav="transforms",
            cli="onramp transforms list",
            poll=round(POLL_SECONDS),
            reading=reading,
            digits=DIGITS,
        )

    @ui.get("/transforms/{name}")
    def show_transform(view: View, name: TransformName) -> Response:
        reading = _reading(view)
        found = view.call(_VERSIONS, name=name).document["versions"]
        transform = reading.find(name)
        return view.page(
            "transform.html",
            title=name,
            nav="transforms",
            cli=command("onramp transforms list", name),
            poll=round(POLL_SECONDS),
            name=name,
            at=reading.at,
            transform=transform,
            outcomes=_outcomes(transform) if transform else [],
            lanes=_by_lane(transform) if transform else [],
            groups=_groups(view, name),
            versions=found[:_MAX_VERSIONS],
            further=max(len(found) - _MAX_VERSIONS, 0),
            digits=DIGITS,
            rehearsal=command("onramp transforms rehearse", name, since="24h", against="live"),
        )

    _add_changes(ui)


def _add_changes(ui: Ui) -> None:
    @ui.get("/transforms/{name}/rollback")
    def ask_rollback(view: View, name: TransformName, to: _Digest) -> Response:
        view.require("POST /v1/transforms/{name}/rollback")
        found = view.call(_VERSIONS, name=name)
        version = next((each for each in found.document["versions"] if each["digest"].startswith(to)), None)
        if version is None:
            raise not_stored("version")
        by = f"{version['actor']} deployed it on {version['time'][:10]}: {version['reason']}."
        return view.confirm(
            title=f"Roll {name} back to {to[:DIGITS]}?",
            effect=f"The version is in force from the next batch on. Processed events do not run again. {by}",
            button="Roll back",
            action=f"/transforms/{name}/rollback",
            back=f"/transforms/{name}",
            nav="transforms",
            cli=command("onramp transforms rollback", name, to=to[:DIGITS], reason="WHY"),
            fields={"to": version["digest"], "etag": found.tag},
            ask=("reason", "Reason, stored with the change"),
        )

    @ui.post("/transforms/{name}/rollback")
    def roll_back(view: View, name: TransformName) -> Response:
        said = RollbackSaid.model_validate(_said(view) | {"to": view.form.get("to")})
        state = State([view.form.get("etag", "")])
        view.call("POST /v1/transforms/{name}/rollback", name=name, said=said, state=state)
        return _changed(view, name)

    @ui.get("/transforms/{name}/state/{act}")
    def ask_state(view: View, name: TransformName, act: str) -> Response:
        if act not in _ACTS:
            return view.go(f"/transforms/{name}")
        view.require(_route(act))
        transform = _reading(view).find(name)
        if transform is None:
            raise not_stored("transform")
        asked = _ACTS[act]
        return view.confirm(
            title=asked.question.format(name),
            effect=f"{_state_sentence(transform)} {asked.effect}",
            button=asked.button,
            action=f"/transforms/{name}/state/{act}",
            back=f"/transforms/{name}",
            nav="transforms",
            cli=_command(name, act),
            fields={"etag": transform["state_tag"]},
            ask=("reason", "Reason, stored in the audit log"),
            is_danger=act == "accept",
        )

    @ui.post("/transforms/{name}/state/{act}")
    def set_state(view: View, name: TransformName, act: str) -> Response:
        if act in _ACTS:
            said = Said.model_validate(_said(view) | dict(_ACTS[act].query))
            view.call(_route(act), name=name, said=said, state=state_of(view))
        return _changed(view, name)


def _reading(view: PageView) -> TransformsReading:
    reading: TransformsReading = view.state.transforms.reading
    view.down += [Down(part.name, part.reason, part.since) for part in reading.down()]
    return reading


def _changed(view: PageView, name: str) -> Response:
    """Return to the transform, which shows the change."""
    view.state.transforms.read()
    return view.go(f"/transforms/{name}")


def _said(view: PageView) -> dict[str, Any]:
    return {"reason": view.form.get("reason", ""), "actor": view.actor}


def _route(act: str) -> str:
    return f"POST /v1/transforms/{{name}}/{'pause' if act == 'pause' else 'resume'}"


def _command(name: str, act: str) -> str:
    if act == "pause":
        return command("onramp transforms pause", name, reason="WHY")
    options = ["--accept"] if act == "accept" else []
    return command("onramp transforms resume", name, *options, reason="WHY")


def _state_sentence(transform: Mapping[str, Any]) -> str:
    lag = quantity(transform["lag"] or 0, "event waits", "events wait")
    reason = f" ({transform['reason']})" if transform["reason"] else ""
    return f"It is {transform['state'].replace('_', ' ')}{reason}, and {lag}."


def _outcomes(transform: Mapping[str, Any]) -> list[Part]:
    """Return the parts of the bar of outcomes."""
    rare = [("of another type", transform["filtered"], "off")] if transform["filtered"] else []
    return [
        Part("emitted", transform["emitted"], "land"),
        Part("dropped", transform["dropped"], "there"),
        Part("parked", transform["parked"], "err"),
        *(Part(*each) for each in rare),
    ]


def _by_lane(transform: Mapping[str, Any]) -> list[tuple[int, list[dict[str, Any]]]]:
    """Return the partitions by lane."""
    lanes: dict[int, list[dict[str, Any]]] = {}
    for each in transform["partitions"]:
        lanes.setdefault(each["lane"], []).append(each)
    return sorted(lanes.items())


def _groups(view: PageView, name: str) -> list[dict[str, Any]]:
    """Return the open groups of events that the transform has parked."""
    query = GroupQuery(state="open", destination=f"{TRANSFORM_DESTINATION}{name}", limit=_MAX_GROUPS)
    found = view.part(
        "the control database", lambda: view.call("GET /v1/groups", query=query).document["groups"]
    )
    return list(found or ())
