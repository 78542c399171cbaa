"""Event types: each with its owner, schema, tables, and whether it is paused; one with its history."""

import json
from typing import Annotated, Any, Final

import orjson
import yaml
from fastapi import Query
from fastapi.responses import Response

from services.admin.api.queries import Known
from services.admin.registry_api.schemas import CheckQuery, TypeQuery
from services.admin.ui.routes import Ui
from services.admin.ui.view import PageView, View

_VERSIONS: Final = "GET /v1/types/{name}/versions"
_MAX_VERSIONS: Final = 50
_MAX_VALUE: Final = 200


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
            versions=_versions(view, name),
            shown=_shown,
        )


def _paused(view: PageView) -> dict[str, dict[str, Any]]:
    """Return the hold of each paused type."""
    holds = view.call("GET /v1/holds").document["holds"]
    return {hold["name"]: hold for hold in holds if (hold["kind"], hold["state"]) == ("type", "paused")}


def _checked(view: PageView, name: str) -> dict[str, Any]:
    return dict(view.call("GET /v1/destinations/check", query=CheckQuery(event_type=name)).document)


def _versions(view: PageView, name: str) -> list[dict[str, Any]]:
    """Return the versions of a type, the newest first, if the caller may see changes."""
    if not view.may(_VERSIONS):
        return []
    return list(view.call(_VERSIONS, name=name).document["versions"][:_MAX_VERSIONS])


def _shown(value: Any) -> str:
    """Return a value as JSON, cut; a dash for none."""
    text = "–" if value is None else json.dumps(value, ensure_ascii=False)  # noqa: RUF001 - as `harmless` writes it
    return text if len(text) <= _MAX_VALUE else f"{text[:_MAX_VALUE]}…"


def _pretty(schema: Any) -> str:
    return "" if schema is None else orjson.dumps(schema, option=orjson.OPT_INDENT_2).decode()
