"""Databases: which answer, which are halted, the tables that events land in, and missing rights."""

from typing import Any

from fastapi.responses import Response

from services.admin.registry_api.schemas import CheckQuery
from services.admin.ui.routes import Ui
from services.admin.ui.view import PageView, View


def add(ui: Ui) -> None:
    """Add the route."""

    @ui.get("/databases")
    def show_databases(view: View) -> Response:
        states = view.call("GET /v1/databases").document["databases"]
        waiting = {each["database"]: each for each in view.call("GET /v1/waiting").document["databases"]}
        checked = view.part("Kafka", lambda: _facts(view)) or {}
        return view.page(
            "databases.html",
            title="Databases",
            nav="databases",
            cli="onramp databases list",
            poll=15,
            databases=[_entry(state, waiting.get(state["database"])) for state in states],
            checked=checked,
            others=[each for name, each in waiting.items() if name not in {s["database"] for s in states}],
        )


def _entry(state: dict[str, Any], waiting: dict[str, Any] | None) -> dict[str, Any]:
    """Return a database as the writer sees it, unless it is halted or unreachable from here."""
    if state["state"] != "answers":
        return state
    return state | {"state": waiting["state"] if waiting else "landing", "reason": waiting and waiting["why"]}


def _facts(view: PageView) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return the facts by database and table; those that do not hold have the SQL that helps."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for fact in view.call("GET /v1/destinations/check", query=CheckQuery()).document["facts"]:
        tables = found.setdefault(fact["database"], {})
        tables.setdefault(f"{fact['schema']}.{fact['table']}", []).append(fact)
    return found
