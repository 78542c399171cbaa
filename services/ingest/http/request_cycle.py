"""One request in uvicorn's hands; its answer leaves in one piece.

uvicorn writes an answer's head and its body one after the other.  On a quiet connection each write
is a system call, a packet (over TLS a record) and a wake of the client.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any, Final

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

#: Joining copies: what is larger than this is not worth it.
_SMALL: Final = 16 * 1024


class Cycle(RequestResponseCycle):
    """A request and its answer."""

    def __init__(self, *, transport: asyncio.Transport, **given: Any) -> None:
        self._joined = Joined(transport)
        super().__init__(transport=self._joined, **given)  # type: ignore[arg-type]

    def send(self, message: ASGISendEvent) -> Awaitable[None]:  # type: ignore[override]
        """Send a part of the answer; what of it is the head waits for what comes next."""
        # After the head of an answer to HEAD nothing is written.
        self._joined.holds = not self.response_started and self.scope["method"] != "HEAD"
        return super().send(message)


class Joined:
    """As much of a transport as a cycle uses; `holds` what is written until the next write."""

    __slots__ = ("_held", "_transport", "holds")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._held = b""
        self.holds = False

    def write(self, data: bytes) -> None:
        """Write it, now or with what follows."""
        if self.holds:
            self._held += data
        elif self._held and len(data) <= _SMALL:
            self._transport.write(self._held + data)
            self._held = b""
        else:
            self._flush()
            self._transport.write(data)

    def close(self) -> None:
        """Close when all is written."""
        self._flush()
        self._transport.close()

    def is_closing(self) -> bool:
        """Whether nothing more is sent."""
        return self._transport.is_closing()

    def _flush(self) -> None:
        if self._held:
            self._transport.write(self._held)
            self._held = b""
