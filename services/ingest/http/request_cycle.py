"""uvicorn's cycle of a request and its answer, which sends the answer in one piece.

uvicorn writes an answer's head and its body one after the other.  On a quiet connection each write
is a system call, a packet (over TLS a record) and a wake of the client.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any, Final

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

#: Bytes up to which a body is joined to its head: that copies it.
_SMALL: Final = 16 * 1024


class Cycle(RequestResponseCycle):
    """A request and its answer, whose head and body are one write."""

    def __init__(self, *, transport: asyncio.Transport, **options: Any) -> None:
        self._joining = JoiningTransport(transport)
        super().__init__(transport=self._joining, **options)  # type: ignore[arg-type]

    def send(self, message: ASGISendEvent) -> Awaitable[None]:  # type: ignore[override]
        """Send a part of the answer; the head waits for the first part of the body."""
        # After the head of an answer to HEAD nothing is written.
        self._joining.joins = not self.response_started and self.scope["method"] != "HEAD"
        return super().send(message)


class JoiningTransport:
    """As much of a transport as a cycle uses; while `joins` is set, a write waits for the next one."""

    __slots__ = ("_buffered", "_transport", "joins")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._buffered = b""
        self.joins = False

    def write(self, data: bytes) -> None:
        """Write `data`, now or with the next write."""
        if self.joins:
            self._buffered += data
        elif self._buffered and len(data) <= _SMALL:
            self._transport.write(self._buffered + data)
            self._buffered = b""
        else:
            self._flush()
            self._transport.write(data)

    def close(self) -> None:
        """Write what waits, and close."""
        self._flush()
        self._transport.close()

    def is_closing(self) -> bool:
        """Return whether nothing more can be sent."""
        return self._transport.is_closing()

    def _flush(self) -> None:
        if self._buffered:
            self._transport.write(self._buffered)
            self._buffered = b""
