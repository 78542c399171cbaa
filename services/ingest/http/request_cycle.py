"""uvicorn's cycle of a request and its answer, which sends the answer in one piece.

uvicorn writes an answer's head and its body one after the other.  On a quiet connection each write
is a system call, a packet (over TLS a record) and a wake of the client.

Body bytes that uvicorn has read before the application receives them are reserved in the byte budget too: for
hundreds of connections they are a hundred megabytes.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any, Final

from uvicorn._types import ASGI3Application, ASGIReceiveEvent, ASGISendEvent
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from services.ingest.send.byte_budget import ByteBudget
from shared.errors import InfrastructureError

#: Bytes up to which a body is joined to its head: that copies it.
_SMALL: Final = 16 * 1024


class Cycle(RequestResponseCycle):
    """A request and its answer, whose head and body are one write."""

    def __init__(self, *, transport: asyncio.Transport, **options: Any) -> None:
        self._joining = JoiningTransport(transport)
        super().__init__(transport=self._joining, **options)  # type: ignore[arg-type]
        self._budget: ByteBudget = self.scope["state"]["budget"]
        self._unread = 0
        self._no_room: InfrastructureError | None = None

    def has_room(self, size: int) -> bool:
        """Reserve `size` more bytes of the body; return whether there was room."""
        if self.response_complete or self._no_room is not None:
            return False
        try:
            self._budget.reserve(size)
        except InfrastructureError as error:
            self._no_room = error.without_frames()
            self.forget()
            self.flow.pause_reading()
            self.message_event.set()
            return False
        self._unread += size
        return True

    def forget(self) -> None:
        """Drop the unread rest of the body."""
        self.body = bytearray()
        self._release()

    async def receive(self) -> ASGIReceiveEvent:
        """Return the next piece of the body, which the receiver counts from now on.

        Raises:
            InfrastructureError: OVERLOADED, no room in the byte budget.
        """
        message = await super().receive()
        self._release()
        if self._no_room is not None and message["type"] == "http.request":
            raise self._no_room
        return message

    async def run_asgi(self, app: ASGI3Application) -> None:
        """Answer the request."""
        try:
            await super().run_asgi(app)
        finally:
            self.forget()

    def send(self, message: ASGISendEvent) -> Awaitable[None]:  # type: ignore[override]
        """Send a part of the answer; the head waits for the first part of the body."""
        # After the head of an answer to HEAD nothing is written.
        self._joining.joins = not self.response_started and self.scope["method"] != "HEAD"
        return super().send(message)

    def _release(self) -> None:
        self._budget.release(self._unread)
        self._unread = 0


class JoiningTransport:
    """The part of a transport that a cycle uses; while `joins` is set, a write waits for the next one."""

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
        """Write pending data, and close."""
        self._flush()
        self._transport.close()

    def is_closing(self) -> bool:
        """Return whether nothing more can be sent."""
        return self._transport.is_closing()

    def _flush(self) -> None:
        if self._buffered:
            self._transport.write(self._buffered)
            self._buffered = b""
