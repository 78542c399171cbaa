"""New event type: five steps from samples to the first row; each has its URL, and input outlasts Back.

Nothing is changed before the last step.  The draft is stored in the control database, so a restart of the
service loses none of the input.
"""

import shlex
from typing import Any, Final

import orjson
import yaml
from fastapi.responses import Response

from services.admin.api.queries import Known, State
from services.admin.registry_api.schemas import Said, TypeQuery
from services.admin.samples_api.schemas import InferRequest, PreviewRequest
from services.admin.samples_api.wizard import PARK, REJECT, SAMPLES, TYPES, PreflightRequest, event_type_of
from services.admin.store import drafts_sql
from services.admin.store.control_sql import transaction
from services.admin.ui.routes import Ui
from services.admin.ui.view import PageView, View
from services.ops.fixes import exact
from shared.errors import UserError
from shared.landing_columns import OPEN_SCHEMAS

_STEPS: Final = ("Samples", "Columns", "Table", "Preview", "Create")
_OPERATION: Final = "PUT /v1/types/{name}"
#: Empty lines below the inferred columns.
_BLANK: Final = 3
_SAMPLES: Final = 50
_SENT_AT: Final = "2026-01-02T03:04:05Z"


def add(ui: Ui) -> None:
    """Add the routes."""

    @ui.get("/types/new")
    def first_step(view: View) -> Response:
        return _step(view, 1, {"name": view.query.get("name", ""), "samples": ""}, "")

    @ui.post("/types/new")
    def begin(view: View) -> Response:
        draft: dict[str, Any] = {"name": view.form.get("name", ""), "samples": view.form.get("samples", "")}
        problem = _infer(view, draft)
        if problem:
            return _step(view, 1, draft, "", problem=problem)
        draft["tag"] = view.call("GET /v1/types", query=TypeQuery(limit=1), known=Known()).tag
        with transaction(view.state.dsn) as conn:
            number = drafts_sql.add(conn, view.actor, draft)
        return view.go(f"/types/new/{number}/2")

    @ui.get("/types/new/{number}/{step}")
    def later_step(view: View, number: str, step: int) -> Response:
        draft = _read(view, number)
        if step not in range(1, len(_STEPS) + 1):
            return view.go(f"/types/new/{number}/1")
        return _step(view, step, draft, number)

    @ui.post("/types/new/{number}/{step}")
    def save_step(view: View, number: str, step: int) -> Response:
        draft = _read(view, number)
        problem = _SAVE[step](view, draft) if step in _SAVE else ""
        if problem:
            return _step(view, step, draft, number, problem=problem)
        with transaction(view.state.dsn) as conn:
            drafts_sql.save(conn, view.actor, number, draft)
        stays = view.form.get("action") == "check"
        return view.go(f"/types/new/{number}/{step if stays else step + 1}")

    _add_end(ui)


def _add_end(ui: Ui) -> None:
    @ui.post("/types/create/{number}")
    def create(view: View, number: str) -> Response:
        draft = _read(view, number)
        state = State([view.form.get("etag", draft["tag"])])
        said = Said(actor=view.actor, reason=view.form.get("reason") or "made by the web page", accept=True)
        document = orjson.dumps(event_type_of(draft, is_checked=True))
        made = view.call(_OPERATION, name=draft["name"], given=document, said=said, state=state)
        if draft["misfits"] == PARK:
            document = orjson.dumps(event_type_of(draft, is_checked=False))
            view.call(_OPERATION, name=draft["name"], given=document, said=said, state=State([made.tag]))
        return view.go(f"/types/made/{draft['name']}", draft=number)

    @ui.get("/types/made/{name}")
    def show_first_row(view: View, name: str) -> Response:
        found = view.call("GET /v1/types/{name}/first-row", name=name).document
        number = view.query.get("draft", "")
        draft = _read(view, number) if number else {"columns": []}
        # The draft's id: a poll must not change the command while it is copied.
        event = {
            "metadata": {"id": number or "first-1", "timestamp": _SENT_AT, "version": "1"},
            "event_name": name,
            "payload": {each["name"]: SAMPLES[each["type"]] for each in draft["columns"]},
        }
        curl = (
            "curl -H 'Authorization: Bearer KEY' -H 'Content-Type: application/json' "
            f"{view.state.figures.gateway}/v1/events -d {shlex.quote(orjson.dumps(event).decode())}"
        )
        return view.page(
            "type_made.html",
            title=f"{name} is made",
            nav="types",
            poll=5,
            name=name,
            found=found,
            row=None if found["row"] is None else orjson.dumps(found["row"]).decode(),
            curl=curl,
        )


def _read(view: PageView, number: str) -> dict[str, Any]:
    with transaction(view.state.dsn) as conn:
        return drafts_sql.read(conn, view.actor, number)


def _step(view: PageView, step: int, draft: dict[str, Any], number: str, problem: str = "") -> Response:
    name = draft.get("name", "")
    further = _SHOW[step](view, draft) if step in _SHOW else {}
    return view.page(
        f"new_type_{step}.html",
        title="New event type",
        nav="types",
        cli=f"onramp types infer {shlex.quote(name or 'NAME')} --topic {shlex.quote(name or 'NAME')}",
        steps=_STEPS,
        step=step,
        draft=draft,
        number=number,
        problem=problem,
        types=list(TYPES),
        **further,
    )


def _texts(draft: dict[str, Any]) -> list[str]:
    """Return the pasted samples: a JSON array, or a JSON document in each line."""
    text = draft["samples"].strip()
    if not text:
        return []
    try:
        document = exact.loads(text.encode(errors="replace"))
    except UserError:
        return [line for line in text.splitlines() if line.strip()]
    if isinstance(document, list):
        return [exact.dumps(each).decode() for each in document]
    return [text]


def _infer(view: PageView, draft: dict[str, Any]) -> str:
    """Add the inferred columns to a draft; return why that cannot be."""
    texts = _texts(draft)
    try:
        asked = InferRequest(name=draft["name"], samples=texts[:1000] or None)
    except ValueError:
        return "A name has 1 to 63 lower-case letters, digits and _, and begins with a letter."
    found = view.call("POST /v1/types/infer", asked=asked).document
    if found["problem"]:
        return str(found["problem"])
    if texts and not found["samples"]:
        return f"No sample is JSON of an event {draft['name']} or of its payload."
    fields = found["schema"].get("properties", {})
    draft["inferred"] = {
        each["name"]: {"type": each["type"], "schema": fields[each["name"]]} for each in found["columns"]
    }
    draft["columns"] = [
        {"name": each["name"], "type": each["type"], "required": each["is_required"], "personal": False}
        for each in found["columns"]
    ]
    draft |= {"counted": found["samples"], "topic": found["topic"], "misfits": REJECT, "owner": view.actor}
    draft |= {"database": "", "schema": "public", "table": draft["name"], "key": ""}
    return ""


def _save_samples(view: PageView, draft: dict[str, Any]) -> str:
    before = draft["name"], draft["samples"]
    draft |= {"name": view.form.get("name", ""), "samples": view.form.get("samples", "")}
    return "" if before == (draft["name"], draft["samples"]) else _infer(view, draft)


def _save_columns(view: PageView, draft: dict[str, Any]) -> str:
    form = view.form
    count = len(draft["columns"]) + _BLANK
    columns = [
        {
            "name": form[f"name{i}"].strip(),
            "type": form.get(f"type{i}", "text"),
            "required": f"required{i}" in form,
            "personal": f"personal{i}" in form,
        }
        for i in range(count)
        if form.get(f"name{i}", "").strip()
    ]
    draft |= {"columns": columns, "owner": form.get("owner", ""), "misfits": form.get("misfits", REJECT)}
    names = [each["name"] for each in columns]
    if len(set(names)) < len(names):
        return "A column comes twice."
    if not columns:
        return "A table has at least one column."
    return "" if all(each["type"] in TYPES for each in columns) else "A type is not known."


def _save_table(view: PageView, draft: dict[str, Any]) -> str:
    draft |= {name: view.form.get(name, "").strip() for name in ("database", "schema", "table", "key")}
    return "" if draft["schema"] and draft["table"] else "Name a schema and a table."


def _show_columns(_: PageView, draft: dict[str, Any]) -> dict[str, Any]:
    blank = {"name": "", "type": "text", "required": False, "personal": False}
    return {"columns": [*draft["columns"], *[blank] * _BLANK], "reject": REJECT, "park": PARK}


def _show_table(view: PageView, draft: dict[str, Any]) -> dict[str, Any]:
    databases = [each["database"] for each in view.call("GET /v1/databases").document["databases"]]
    draft["database"] = draft["database"] or next(iter(databases), "")
    document = event_type_of(draft, is_checked=True)
    asked = PreflightRequest(name=draft["name"], event_type=document)
    checked = view.call("POST /v1/destinations/check", asked=asked).document
    return {"databases": databases, "schemas": OPEN_SCHEMAS, "checked": checked}


def _show_preview(view: PageView, draft: dict[str, Any]) -> dict[str, Any]:
    asked = PreviewRequest(
        name=draft["name"],
        event_type=event_type_of(draft, is_checked=True),
        samples=_texts(draft)[:_SAMPLES] or None,
        reason="the preview of a new event type",
        actor=view.actor,
    )
    preview = view.call("POST /v1/previews", asked=asked).document
    return {
        "preview": preview,
        "rows": [each | {"cells": _cells(each["row"], draft)} for each in preview["samples"][:10]],
        "would_land": sum(each["outcome"] == "would land" for each in preview["samples"]),
    }


def _cells(row: str | None, draft: dict[str, Any]) -> list[str]:
    """Return the values of a row in the order of the columns, each as Postgres' JSON has it."""
    if row is None:
        return []
    fields = exact.loads(row.encode())
    return [exact.dumps(fields.get(each["name"])).decode() for each in draft["columns"]]


def _show_create(view: PageView, draft: dict[str, Any]) -> dict[str, Any]:
    tag = view.call("GET /v1/types", query=TypeQuery(limit=1), known=Known()).tag
    document = {"event_types": {draft["name"]: event_type_of(draft, is_checked=draft["misfits"] == REJECT)}}
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    return {"tag_now": tag, "is_stale": tag != draft["tag"], "yaml": text}


_SAVE: Final = {1: _save_samples, 2: _save_columns, 3: _save_table}
_SHOW: Final = {2: _show_columns, 3: _show_table, 4: _show_preview, 5: _show_create}
