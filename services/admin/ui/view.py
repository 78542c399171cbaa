"""A request for a page, as its handler sees it: the caller, the parameters, and the possible answers."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final, NamedTuple, TypeVar

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment
from starlette.datastructures import State

from services.admin.api.operators import Caller
from services.admin.ui.calls import Answer, Calls
from services.admin.ui.formats import href
from services.admin.ui.navigation import ENTRIES
from services.admin.ui.sessions import Session, Sessions
from services.admin.ui.templates import TAG_PLACE, rendered, tagged
from shared.errors import InfrastructureError

_T = TypeVar("_T")
_SEE_OTHER: Final = 303
THEMES: Final = frozenset({"light", "dark"})


@dataclass(frozen=True)
class Shell:
    """The data that all pages share."""

    env: Environment
    calls: Calls
    sessions: Sessions
    #: Paths of pages below /ui.
    paths: Callable[[], frozenset[str]]


class Question(NamedTuple):
    """A field of a confirmation form."""

    name: str
    label: str
    value: str = ""
    is_required: bool = False
    #: The type of the input.
    kind: str = "text"
    note: str = ""


@dataclass(frozen=True)
class Down:
    """A part that does not answer: its name, the reason, and since when as far as this process knows."""

    name: str
    detail: str
    since: datetime


#: When a part was first unreachable, by its name; a part that answers again is removed.
_down_since: dict[str, datetime] = {}


class PageView:
    """One request for a page."""

    def __init__(self, shell: Shell, request: Request, session: Session | None) -> None:
        self.shell = shell
        self.request = request
        self.session = session
        self.now = datetime.now(UTC)
        #: Parts that did not answer; the page shows a banner for each.
        self.down: list[Down] = []

    @property
    def state(self) -> State:
        """Return the state of the service's application, for parts that no route of /v1 has."""
        return self.shell.calls.state

    @property
    def caller(self) -> Caller:
        """Return the caller; every page but the login has one."""
        assert self.session is not None  # noqa: S101 - the guard has sent others to the login
        return self.session.caller

    @property
    def actor(self) -> str:
        """Return the actor for the audit log."""
        return self.caller.name or (self.session.name if self.session else "")

    @property
    def query(self) -> Mapping[str, str]:
        """Return the parameters of the URL as text."""
        return self.request.query_params

    @property
    def filters(self) -> dict[str, str]:
        """Return the parameters of the URL that have a value: an empty field of a form filters nothing."""
        return {name: value for name, value in self.query.items() if value}

    @property
    def form(self) -> Mapping[str, str]:
        """Return the fields of a form; of a repeated field the last."""
        return dict(self.fields)

    @property
    def fields(self) -> list[tuple[str, str]]:
        """Return all fields of a form with repetitions, such as selected rows."""
        found: list[tuple[str, str]] = getattr(self.request.state, "form", [])
        return found

    @property
    def once(self) -> str:
        """Return the Idempotency-Key of the form, so that a double click is one write."""
        return self.form.get("once") or secrets.token_urlsafe(12)

    @property
    def is_polled(self) -> bool:
        """Return whether htmx requests the part that changes."""
        return "hx-request" in self.request.headers

    def may(self, operation: str) -> bool:
        """Return whether the caller has the right for an operation of /v1."""
        return self.session is not None and self.shell.calls.may(self.session.caller, operation)

    def require(self, operation: str) -> None:
        """Raise `UserError` NOT_ALLOWED unless the caller has the right for an operation of /v1."""
        self.shell.calls.require(self.caller, operation)

    def call(self, operation: str, **arguments: Any) -> Answer:
        """Call the function behind a route of /v1.  Raises what it raises."""
        return self.shell.calls.call(self.caller, operation, **arguments)

    def part(self, name: str, read: Callable[[], _T]) -> _T | None:
        """Return what `read` returns, or None with a banner if this part cannot be reached."""
        try:
            found = read()
        except InfrastructureError as e:
            self.down.append(Down(name, e.detail, _down_since.setdefault(name, self.now)))
            return None
        _down_since.pop(name, None)
        return found

    def go(self, path: str, **query: Any) -> Response:
        """Return a redirect to a page, which a reload does not send again."""
        return RedirectResponse(href(path, **query), _SEE_OTHER)

    def page(
        self,
        template: str,
        *,
        title: str,
        nav: str = "",
        cli: str = "",
        poll: int = 0,
        status: int = 200,
        **context: Any,
    ) -> Response:
        """Return the page; a polled one has an ETag, by which the guard answers 304.

        Args:
            template: a file of `templates`.
            title: of the document, and of the first heading unless the template has its own.
            nav: the name of the entry of the sidebar.
            cli: the command that shows the same, for "Copy as CLI".
            poll: seconds between polls of the main part; 0 for none.
            status: of the answer.
            context: names for the template.
        """
        known = {
            "layout": "part.html" if self.is_polled else "base.html",
            "title": title,
            "nav": nav,
            "cli": cli,
            "poll": poll,
            "view": self,
            "now": self.now,
            "down": self.down,
            "here": self._here,
            "tag": TAG_PLACE,
            "theme": self._theme,
            "form_token": self.shell.sessions.form_token(self.session) if self.session else "",
            "entries": self._entries,
        }
        # Polls of this page share its answer for a part of this time.
        self.request.state.poll_seconds = poll
        html, tag = tagged(rendered(self.shell.env, template, known | context))
        return HTMLResponse(html, status, {"etag": f'"{tag}"'} if poll else {})

    def confirm(
        self,
        *,
        title: str,
        effect: str,
        button: str,
        action: str,
        back: str,
        nav: str = "",
        cli: str = "",
        fields: Mapping[str, Any] | None = None,
        ask: tuple[str, str] | None = None,
        asks: Sequence[Question] = (),
        is_danger: bool = False,
        problem: str = "",
        status: int = 200,
    ) -> Response:
        """Return the page that names the effect of a write; Cancel has the focus.

        Args:
            title: the action and its object, such as "Cancel job 7?".
            effect: what happens to how many things.
            button: the word of the button.
            action: where the form is sent, below /ui.
            back: where Cancel leads, below /ui.
            nav: the name of the entry of the sidebar.
            cli: the command that does the same.
            fields: hidden fields.
            ask: name and label of a text that must be typed, such as a reason or a count.
            asks: further fields, whose typed values are preserved.
            is_danger: the button is red.
            problem: the reason why the form is shown again.
            status: of the answer.
        """
        return self.page(
            "confirm.html",
            title=title,
            nav=nav,
            cli=cli,
            status=status,
            effect=effect,
            button=button,
            action=href(action),
            back=href(back),
            fields={**(fields or {}), "once": self.once},
            asks=[
                each._replace(value=self.form.get(each.name, each.value))
                for each in [*([Question(*ask, is_required=True)] if ask else []), *asks]
            ],
            is_danger=is_danger,
            problem=problem,
        )

    @property
    def _here(self) -> str:
        query = self.request.url.query
        return self.request.url.path + (f"?{query}" if query else "")

    @property
    def _theme(self) -> str:
        theme = self.request.cookies.get("theme", "")
        return theme if theme in THEMES else ""

    @property
    def _entries(self) -> list[Any]:
        paths = self.shell.paths()
        return [entry for entry in ENTRIES if entry.path in paths and self.may(entry.need)]


def page_view(request: Request) -> PageView:
    """Return the view of a request."""
    view: PageView = PageView(request.app.state.shell, request, request.state.session)
    return view


#: The parameter of a page's handler.
View = Annotated[PageView, Depends(page_view)]
