"""Audit log: actions and refusals of operators, with time and reason; it can be printed."""

import re
from typing import Final

from fastapi.responses import Response

from services.admin.api.queries import ActQuery
from services.admin.ui.formats import href
from services.admin.ui.routes import Ui
from services.admin.ui.view import View

#: Subjects that have a page.
_SUBJECT: Final = re.compile(r"(group|job) (\d{1,18})")
_PATHS: Final = {"group": "/groups", "job": "/jobs"}


def add(ui: Ui) -> None:
    """Add the routes."""

    @ui.get("/audit")
    def list_acts(view: View) -> Response:
        query = ActQuery.model_validate(view.filters)
        found = view.call("GET /v1/audit-log", query=query).document
        return view.page(
            "audit.html",
            title="Audit log",
            nav="audit",
            cli="onramp errors acts",
            acts=found["acts"],
            cursor=found["next"],
            filters=query.model_dump(exclude={"limit"}),
            link_of=_link_of,
        )


def _link_of(subject: str) -> str:
    """Return the link to the page of a subject, or an empty text."""
    found = _SUBJECT.fullmatch(subject)
    return href(f"{_PATHS[found[1]]}/{int(found[2])}") if found else ""
