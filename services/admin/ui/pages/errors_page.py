"""Errors: the catalogue of every error code, with its meaning and its fix."""

from typing import Annotated

from fastapi import Query
from fastapi.responses import Response

from services.admin.ui.formats import href
from services.admin.ui.routes import Ui
from services.admin.ui.view import View
from shared.errors import TABLE, Kind
from shared.fix_links import pages_in


def add(ui: Ui) -> None:
    """Add the route."""

    @ui.get("/errors")
    def list_errors(
        view: View,
        kind: Annotated[str, Query(max_length=20)] = "",
        q: Annotated[str, Query(max_length=100)] = "",
    ) -> Response:
        wanted = q.casefold().strip()
        faults = [
            fault
            for fault in TABLE.values()
            if kind in {"", fault.kind} and wanted in f"{fault.code} {fault.title} {fault.fix}".casefold()
        ]
        return view.page(
            "errors.html",
            title="Errors",
            nav="errors",
            faults=[(fault, pages_in(fault.fix)) for fault in faults],
            tab_entries=[
                (word.capitalize() or "All", href("/errors", kind=word, q=q), None, word == kind)
                for word in ("", *(each.value for each in Kind))
            ],
            kind=kind,
            q=q,
        )
