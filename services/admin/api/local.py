"""Lets this machine's programs in, and nothing that a web page in a browser sends.

A page can make a browser call loopback, by a name of its own that resolves to it (DNS rebinding) or from
another origin: the first has a foreign `Host`, the second an `Origin`.
"""

from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.admin.api.problems import problem
from shared.errors import NOT_LOCAL

_HOSTS: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
_HEADERS: Final = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))


class LocalOnly:
    """ASGI around the application: refuses foreign requests, and adds headers to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif is_local(Headers(scope=scope)):
            await self._app(scope, receive, send_with_headers)
        else:
            await problem(NOT_LOCAL, NOT_LOCAL.title)(scope, receive, send_with_headers)


def is_local(headers: Headers) -> bool:
    """Whether a program of this machine sent it, as far as headers tell."""
    hosts = headers.getlist("host")
    names = {host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host for host in hosts}
    return len(hosts) == 1 and names <= _HOSTS and "origin" not in headers
