"""The types of plain ASGI, which the gateway's hot path uses directly.

FastAPI's request, dependency and response objects cost more per event than the whole rest
of the flow; everything that is not hot goes through FastAPI.
"""

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
AsgiReceive = Callable[[], Awaitable[Message]]
AsgiSend = Callable[[Message], Awaitable[None]]
Header = tuple[bytes, bytes]

#: Bytes that uvicorn buffers for a client before `send` waits.
_BUFFERED: Final = 64 * 1024


class ClientGoneError(Exception):
    """The client closed the connection before its request was complete."""


class Answer(msgspec.Struct, frozen=True):
    """A complete HTTP response."""

    status: int
    media_type: bytes
    body: bytes
    headers: Sequence[Header] = ()

    def with_headers(self, headers: Sequence[Header]) -> "Answer":
        """Return a copy of the answer with more headers."""
        return Answer(self.status, self.media_type, self.body, [*self.headers, *headers]) if headers else self

    def as_last(self) -> bytes:
        """Return the answer as the last bytes of an HTTP/1.1 connection."""
        headers = [
            (b"content-type", self.media_type),
            (b"content-length", b"%d" % len(self.body)),
            *self.headers,
            (b"connection", b"close"),
        ]
        lines = b"".join(b"%s: %s\r\n" % header for header in headers)
        reason = HTTPStatus(self.status).phrase.encode()
        return b"HTTP/1.1 %d %s\r\n%s\r\n%s" % (self.status, reason, lines, self.body)

    async def send(self, send: AsgiSend) -> None:
        """Send the answer; return when the client has read it, except for what the connection buffers."""
        headers = [
            (b"content-type", self.media_type),
            (b"content-length", b"%d" % len(self.body)),
            *self.headers,
        ]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        if len(self.body) > _BUFFERED:
            # uvicorn accepts a message of any size and blocks only the next one.
            await send({"type": "http.response.body", "body": self.body, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        else:
            await send({"type": "http.response.body", "body": self.body})
