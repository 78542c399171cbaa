"""Databases: which answer, which are halted, the tables that events land in, and missing rights."""

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal, NamedTuple

from fastapi import Query
from fastapi.responses import Response

from services.admin.figures.reading import Reading
from services.admin.registry_api.checked_tables import CheckedTables, TableCheck
from services.admin.ui.routes import Ui
from services.admin.ui.view import PageView, View
from services.admin.waiting_api.report import visible_databases
from services.ops.waiting_report import waiting_databases

_CHECK: Final = "GET /v1/destinations/check"
_PAGE: Final = 50
#: Between the parts of a cursor; no name has it.
_BETWEEN: Final = "\n"


class _Tables(NamedTuple):
    """The tables of a page, and the numbers of all of them."""

    at: datetime | None = None
    tables: Sequence[TableCheck] = ()
    total: int = 0
    failing: int = 0
    #: Databases with any of them.
    databases: frozenset[str] = frozenset()
    cursor: str | None = None


def add(ui: Ui) -> None:
    """Add the route."""

    @ui.get("/databases")
    def show_databases(
        view: View,
        cursor: Annotated[str, Query(max_length=512)] = "",
        checks: Literal["all", "failing"] = "all",
    ) -> Response:
        states = view.call("GET /v1/databases").document["databases"]
        waiting = {each["database"]: each for each in _waiting(view)}
        found = view.part("Kafka", lambda: _tables(view, cursor, only_failing=checks == "failing"))
        return view.page(
            "databases.html",
            title="Databases",
            nav="databases",
            cli="onramp databases list",
            poll=15,
            databases=[_entry(state, waiting.get(state["database"])) for state in states],
            checked=found or _Tables(),
            others=[each for name, each in waiting.items() if name not in {s["database"] for s in states}],
            filters={"cursor": cursor or None, "checks": None if checks == "all" else checks},
        )


def _waiting(view: PageView) -> list[dict[str, Any]]:
    """Return the databases that are not landing, or for which events wait, as the last figures have them."""
    reading: Reading = view.state.figures.reading
    return visible_databases(
        view.caller, waiting_databases({each.name: each.writer for each in reading.databases})
    )


def _entry(state: dict[str, Any], waiting: dict[str, Any] | None) -> dict[str, Any]:
    """Return a database as the writer sees it, unless it is halted or unreachable from here."""
    if state["state"] != "answers":
        return state
    return state | {"state": waiting["state"] if waiting else "landing", "reason": waiting and waiting["why"]}


def _tables(view: PageView, cursor: str, *, only_failing: bool) -> _Tables:
    """Return the tables behind the cursor that the caller sees."""
    view.require(_CHECK)
    checked: CheckedTables = view.state.checked_tables
    at, tables = checked.read()
    visible = [each for each in tables if view.caller.sees(each.place.event_type)]
    failing = [each for each in visible if not each.holds]
    listed = failing if only_failing else visible
    first = bisect_right(listed, tuple(cursor.split(_BETWEEN)), key=lambda each: each.key) if cursor else 0
    shown = listed[first : first + _PAGE]
    has_more = len(listed) > first + _PAGE
    return _Tables(
        at=at,
        tables=shown,
        total=len(visible),
        failing=len(failing),
        databases=frozenset(each.place.database for each in visible),
        cursor=_BETWEEN.join(shown[-1].key) if has_more else None,
    )
