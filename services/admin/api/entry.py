"""The entry point: identifies the caller before any answer, and forbids caching of every answer.

Concurrent requests of one caller are limited, so that other callers are answered too.
The rights that a route needs are checked once the route is known (`rights.py`).
"""

from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.admin.api.operators import STRANGER, Caller, Operators
from services.admin.api.problems import MEDIA_TYPE, problem
from services.admin.api.turns import TurnError, Turns
from shared.errors import BODY_TOO_LARGE, NOT_LOCAL, InfrastructureError, UserError

UI_PATH: Final = "/ui"
_HEADERS: Final = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
#: Probes: they report liveness and readiness, and nothing about events.
_WITHOUT_KEY: Final = frozenset({"/healthz", "/readyz"})


def is_of_ui(path: str) -> bool:
    """Return whether a path is one of the web UI, which identifies its callers by itself (`ui/guard.py`)."""
    return path == UI_PATH or path.startswith(f"{UI_PATH}/")


class Entry:
    """ASGI middleware that identifies the caller and adds headers to every answer."""

    def __init__(self, app: ASGIApp, operators: Operators, turns: Turns) -> None:
        self._app = app
        self._operators = operators
        self._turns = turns

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        if scope["type"] != "http" or is_of_ui(scope["path"]):
            await self._app(scope, receive, send)
            return
        try:
            caller = self._caller(scope)
        except (UserError, InfrastructureError) as e:
            await problem(e.fault, e.detail)(scope, receive, send_with_headers)
            return
        scope["state"] = {**scope.get("state", {}), "caller": caller}
        # A caller without a name is any program of this machine.
        if not caller.name or scope["path"] in _WITHOUT_KEY:
            await self._app(scope, receive, send_with_headers)
            return
        try:
            async with self._turns.of(caller.name):
                await self._app(scope, receive, send_with_headers)
        except TurnError as e:
            await problem(e.fault, e.detail)(scope, receive, send_with_headers)

    def _caller(self, scope: Scope) -> Caller:
        try:
            return self._operators.caller(Headers(scope=scope))
        except (UserError, InfrastructureError) as e:
            if scope["path"] in _WITHOUT_KEY and e.fault is not NOT_LOCAL:
                return STRANGER
            raise


class TooLarge:
    """ASGI middleware that turns the plain answer to an oversized body into a problem document.

    The framework's body limit wraps every handler and middleware.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        is_replaced = False

        async def send_problem(message: Message) -> None:
            nonlocal is_replaced
            if is_replaced:  # the rest of the plain answer
                return
            is_replaced = _is_plain(message)
            if not is_replaced:
                await send(message)
                return
            answer = problem(BODY_TOO_LARGE, "the body has more bytes than this route accepts")
            answer.raw_headers += _HEADERS
            await answer(scope, receive, send)

        await self._app(scope, receive, send_problem)


def _is_plain(message: Message) -> bool:
    if message["type"] != "http.response.start" or message["status"] != BODY_TOO_LARGE.status:
        return False
    return Headers(raw=message["headers"]).get("content-type") != MEDIA_TYPE
