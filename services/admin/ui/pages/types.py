"""Event types: each with its owner, schema, tables, and whether it is paused; one with its history."""

from typing import Annotated, Any, Final

import orjson
import yaml
from fastapi import Query
from fastapi.responses import Response

from services.admin.api.queries import Known
from services.admin.registry_api.schemas import CheckQuery, HistoryQuery, TypeQuery
from services.admin.ui.routes import Ui
from services.admin.ui.view import PageView, View

#: Changes of the registry that are searched for those of one type.
_CHANGES: Final = 200


def add(ui: Ui) -> None:
    """Add the routes."""

    @ui.get("/types")
    def list_types(view: View, cursor: Annotated[str | None, Query(max_length=512)] = None) -> Response:
        query = TypeQuery(limit=50, cursor=cursor)
        page = view.call("GET /v1/types", query=query, known=Known()).document
        return view.page(
            "types.html",
            title="Event types",
            nav="types",
            cli="onramp types list",
            types=page["types"],
            next=page["next"],
            cursor=cursor,
            paused=_paused(view),
            may_create=view.may("PUT /v1/types/{name}"),
        )

    @ui.get("/types/{name}")
    def show_type(view: View, name: str) -> Response:
        found = view.call("GET /v1/types/{name}", name=name, known=Known())
        checked = view.part("a database", lambda: _checked(view, name))
        return view.page(
            "type.html",
            title=name,
            nav="types",
            cli="onramp export",
            name=name,
            event_type=found.document,
            text=yaml.safe_dump(found.document, sort_keys=False, allow_unicode=True),
            schema=_pretty(found.document.get("schema")),
            checked=checked or {"holds": True, "facts": []},
            paused=_paused(view).get(name),
            history=_history(view, name),
        )


def _paused(view: PageView) -> dict[str, dict[str, Any]]:
    """Return the hold of each paused type."""
    holds = view.call("GET /v1/holds").document["holds"]
    return {hold["name"]: hold for hold in holds if (hold["kind"], hold["state"]) == ("type", "paused")}


def _checked(view: PageView, name: str) -> dict[str, Any]:
    return dict(view.call("GET /v1/destinations/check", query=CheckQuery(event_type=name)).document)


def _history(view: PageView, name: str) -> list[dict[str, Any]]:
    """Return the last changes of a type, the newest first, if the caller may see changes."""
    if not view.may("GET /v1/registry/history"):
        return []
    changes = view.call("GET /v1/registry/history", query=HistoryQuery(limit=_CHANGES)).document["history"]
    return [
        change
        for change in changes
        if name in change["put"].get("event_types", ()) or name in change["delete"].get("event_types", ())
    ]


def _pretty(schema: Any) -> str:
    return "" if schema is None else orjson.dumps(schema, option=orjson.OPT_INDENT_2).decode()
