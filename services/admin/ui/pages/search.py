"""Search: where an event is, by its id or its receipt; one sentence, then a timeline."""

from shlex import quote
from typing import Annotated, Any, Final

from fastapi import Query
from fastapi.responses import Response

from services.admin.ui.routes import Ui
from services.admin.ui.view import View
from shared.errors import BAD_QUERY, NOT_STORED, UserError

#: By kind of step: the word, and the colour of its pill.
_PILLS: Final = {
    "accepted": ("accepted", "info"),
    "filtered": ("filtered", "off"),
    "not_settled": ("not settled", "wait"),
    "parked": ("parked", "err"),
    "discarded": ("discarded", "off"),
    "restored": ("restored", "err"),
    "replaying": ("replaying", "info"),
    "replay_failed": ("replay failed", "err"),
    "replayed": ("replayed", "ok"),
    "waiting": ("waiting", "wait"),
    "landed": ("landed", "ok"),
    "duplicate": ("duplicate", "off"),
    "absent": ("no row", "err"),
    "output": ("output", "info"),
    "emitted": ("emitted", "ok"),
    "dropped": ("dropped", "off"),
    "not_transformed": ("not transformed", "wait"),
    "unknown": ("unknown", "none"),
}
_Text = Annotated[str, Query(max_length=512)]


def add(ui: Ui) -> None:
    """Add the route."""

    @ui.get("/search")
    def search(view: View, q: _Text = "", event_name: _Text = "") -> Response:
        text, named = q.strip(), event_name.strip() or None
        journey: dict[str, Any] | None = None
        problem, status = "", 200
        if text:
            try:
                # "topic partition offset" is a receipt too, as `onramp send` prints it.
                subject = "/".join(text.split())
                journey = view.call("GET /v1/journey/{id}", id=subject, event_name=named).document
            except UserError as e:
                if e.fault not in {BAD_QUERY, NOT_STORED}:
                    raise
                problem, status = e.detail, e.fault.status or 422
        return view.page(
            "search.html",
            title="Search",
            cli=_command(text, named) if text else "",
            status=status,
            q=text,
            event_name=named or "",
            journey=journey,
            problem=problem,
            pills=_PILLS,
        )


def _command(text: str, event_name: str | None) -> str:
    return f"onramp journey {quote(text)}" + (f" --type {quote(event_name)}" if event_name else "")
