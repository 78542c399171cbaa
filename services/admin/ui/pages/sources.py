"""Sources: databases whose changes are captured, each with its state, its checks and the SQL of its setup."""

from shlex import quote
from typing import Annotated

from fastapi import Path
from fastapi.responses import Response

from services.admin.ui.routes import Ui
from services.admin.ui.view import View
from services.admin.waiting_api.sources import CheckRows

_Name = Annotated[str, Path(max_length=63)]


def add(ui: Ui) -> None:
    """Add the routes."""

    @ui.get("/sources")
    def list_sources(view: View) -> Response:
        found = view.call("GET /v1/sources").document
        return view.page(
            "sources.html",
            title="Sources",
            nav="sources",
            cli="onramp sources list",
            poll=15,
            sources=found["sources"],
            unreached=found["unreached"],
        )

    @ui.get("/sources/{name}")
    def show_source(view: View, name: _Name) -> Response:
        sources = view.call("GET /v1/sources").document["sources"]
        found = [each for each in sources if each["source"] == name]
        if not found:
            return view.go("/sources")
        may_check = view.may("GET /v1/sources/{name}/check")
        query = CheckRows(rows=view.query.get("rows") == "true")
        is_registered = found[0]["registered"]
        checked = None
        if may_check and is_registered:
            checked = view.call("GET /v1/sources/{name}/check", name=name, query=query).document
        setup = ""
        if view.may("GET /v1/sources/{name}/sql") and is_registered:
            setup = view.call("GET /v1/sources/{name}/sql", name=name).document["sql"]
        return view.page(
            "source.html",
            title=name,
            nav="sources",
            cli=f"onramp sources check {quote(name)}",
            source=found[0],
            checked=checked,
            setup=setup,
        )
