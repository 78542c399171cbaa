"""The entry point of the UI: sessions, the token and origin of forms, limits of requests, and headers.

A cookie identifies the caller, unlike in /v1.  An unsafe request must come from a page of this service: the
browser says so in Sec-Fetch-Site or Origin, and the form has a token.
"""

from collections.abc import Callable, Hashable
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.admin.api.operators import STRANGER
from services.admin.api.shared_answers import Answer, SharedAnswers, known_tag, whole_answer
from services.admin.api.turns import Turns
from services.admin.ui.errors import error_page
from services.admin.ui.headers import HEADERS
from services.admin.ui.login_page import signed_out
from services.admin.ui.sessions import Session, Sessions
from shared.errors import FORM_REFUSED, OnrampError, UserError

_NO_STORE: Final = (b"cache-control", b"no-store")
_SAFE: Final = frozenset({"GET", "HEAD"})
STATIC_PATH: Final = "/ui/static/"
#: Pages without a session.
OPEN: Final = frozenset({"/ui/login", "/ui/login/link", "/ui/login/links"})
#: Its callers are programs with a key in `Authorization`, which no page of another origin can send.
_OF_PROGRAMS: Final = "/ui/login/links"
_MAX_FIELDS: Final = 2_000
#: Polls of one key that are answered at once; ten tabs are one key.
_MAX_POLLS: Final = 2
#: Part of a page's interval during which its polls share an answer: the next poll of a tab gets a new one.
_SHARED: Final = 0.9


class Guard:
    """ASGI middleware of all pages."""

    def __init__(
        self, app: ASGIApp, *, sessions: Sessions, turns: Turns, refresh: Callable[[], None]
    ) -> None:
        self._app = app
        self._sessions = sessions
        self._turns = turns
        self._polls = Turns(limit=_MAX_POLLS)
        self._answers = SharedAnswers()
        self._refresh = refresh

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                names = {name.lower() for name, _ in message["headers"]}
                more = () if b"cache-control" in names else (_NO_STORE,)
                message["headers"] = [*message["headers"], *HEADERS, *more]
            await send(message)

        scope["state"] = {**scope.get("state", {}), "session": None}
        request = Request(scope, receive)
        answer: ASGIApp
        try:
            if scope["path"].startswith(STATIC_PATH):
                answer = self._app
            else:
                answer = await self._identified(request)
            await answer(scope, receive, send_with_headers)
        except OnrampError as e:
            await error_page(request, e.fault, e.detail)(scope, receive, send_with_headers)

    async def _identified(self, request: Request) -> ASGIApp:
        """Return the application that answers, once the caller is known and the form is ours."""
        if request.method not in _SAFE:
            require_own_origin(request)
        await run_in_threadpool(self._refresh)
        session = request.scope["state"]["session"] = self._session_of(request)
        if session is None and request.url.path not in OPEN:
            return self._signed_out(request)
        request.scope["state"]["caller"] = session.caller if session else STRANGER
        if session is None:
            return self._app
        place = (session, request.url.path, request.url.query)
        if request.method == "GET" and "hx-request" in request.headers:
            return self._shared(session.name, place)
        self._answers.forget(place)

        async def in_turn(scope: Scope, receive: Receive, send: Send) -> None:
            async with self._turns.of(session.name):
                if request.method in _SAFE:
                    await self._app(scope, receive, send)
                    return
                try:
                    await self._app(scope, receive, send)
                finally:
                    self._answers.forget_all()

        return in_turn

    def _shared(self, name: str, place: Hashable) -> ASGIApp:
        """Return the application that answers a poll, with the answer of another tab if it is recent."""

        async def poll(scope: Scope, receive: Receive, send: Send) -> None:
            async def compute() -> tuple[Answer, float]:
                async with self._polls.of(name):
                    answer = await whole_answer(self._app, scope, receive)
                return answer, _SHARED * scope["state"].get("poll_seconds", 0)

            answer = await self._answers.of(place, compute)
            await answer.send(send, known_tag(Headers(scope=scope)))

        return poll

    def _session_of(self, request: Request) -> Session | None:
        cookie = request.cookies.get(cookie_name(request), "")
        found = self._sessions.session_of(cookie) if cookie else None
        return found or self._sessions.keyless(request.headers, request.url.scheme)

    def _signed_out(self, request: Request) -> ASGIApp:
        if request.method in _SAFE and "hx-request" not in request.headers:
            here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            return RedirectResponse(f"/ui/login?{urlencode({'next': here})}", 303)

        async def resumable(scope: Scope, receive: Receive, send: Send) -> None:
            answer = signed_out(request, await fields_of(request))
            await answer(scope, receive, send)

        return resumable


def cookie_name(request: HTTPConnection) -> str:
    """Return the name of the session's cookie.

    Without TLS it has the port, because cookies of one machine are shared by its ports.
    """
    return "__Host-onramp" if request.url.scheme == "https" else f"onramp-{request.url.port or 80}"


def require_own_origin(request: Request) -> None:
    """Raise `UserError` FORM_REFUSED unless a page of this service sends the request."""
    headers: Headers = request.headers
    if request.url.path == _OF_PROGRAMS and "authorization" in headers:
        return
    origin = headers.getlist("origin")
    own = f"{request.url.scheme}://{headers.get('host', '')}"
    if headers.getlist("sec-fetch-site") == ["same-origin"] or origin == [own]:
        return
    raise UserError(FORM_REFUSED, "the browser does not say that a page of this service sends it")


async def fields_of(request: Request) -> list[tuple[str, str]]:
    """Return the fields of a form; text that is not UTF-8 has a mark for what cannot be read."""
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return []
    body = (await request.body()).decode("ascii", "replace")
    try:
        return parse_qsl(body, keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="replace")
    except ValueError:
        raise UserError(FORM_REFUSED, f"the form has more than {_MAX_FIELDS} fields") from None


async def require_form_token(request: Request) -> None:
    """Read the form of an unsafe request, and raise `UserError` FORM_REFUSED without its token."""
    if request.method in _SAFE:
        return
    request.state.form = await fields_of(request)
    session: Session | None = request.state.session
    if session is None or request.url.path in OPEN:  # a login; its origin was checked
        return
    sessions: Sessions = request.app.state.shell.sessions
    given = dict(request.state.form).get("token", "")
    if not sessions.is_form_token(session, given):
        raise UserError(FORM_REFUSED, "the form has no token of this session")


def own_path(given: str) -> str:
    """Return a path of a page of ours, or that of the first page: a login must not lead elsewhere."""
    parts = urlsplit(given)
    is_own = not parts.scheme and not parts.netloc and (parts.path + "/").startswith("/ui/")
    return given if is_own and "\\" not in given and given.isprintable() else "/ui/"
