"""Sets up a syslog connection: over TLS it has a place and a deadline from before its handshake."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Final

from services.ingest import tls_handshake

_READ_BYTES: Final = 64 * 1024


class Opened(asyncio.Protocol):
    """A connection whose messages are read once its handshake is done (RFC 5425)."""

    transport: asyncio.Transport
    peer: str

    def __init__(
        self, take: Callable[["Opened"], bool], context: ssl.SSLContext | None, seconds: float
    ) -> None:
        self._take = take
        self._context = context
        self._seconds = seconds
        self._reader = asyncio.StreamReader(_READ_BYTES)
        self._writer: asyncio.StreamWriter | None = None
        self._handshake: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin if there is a place, else close at once: a handshake costs more than a rejection."""
        self.transport = transport
        self.peer = peer_of(transport.get_extra_info("peername"))
        if not self._take(self):
            transport.abort()
            return
        streams = asyncio.StreamReaderProtocol(self._reader, self._on_stream)
        if self._context is None:
            transport.set_protocol(streams)
            streams.connection_made(transport)
        else:
            self._handshake = tls_handshake.begin(transport, streams, self._context, self._seconds)

    async def ready(self) -> None:
        """Wait for the handshake.  Raises `OSError` if it fails."""
        if self._handshake is not None:
            await self._handshake

    async def read(self, within: float) -> bytes:
        """Return the next bytes; none at the stream's end, and after `within` seconds of silence."""
        try:
            async with asyncio.timeout(within):
                return await self._reader.read(_READ_BYTES)
        except TimeoutError:
            return b""

    async def end(self) -> None:
        """Close, and wait until the client has confirmed it, over TLS at most the time of a handshake."""
        self.close()
        if self._writer is not None:
            await self._writer.wait_closed()

    def close(self) -> None:
        """Close without waiting."""
        (self._writer or self.transport).close()

    def abort(self) -> None:
        """Free the file descriptor now."""
        self.transport.abort()

    def _on_stream(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer


def peer_of(address: Any) -> str:
    """Return the host of a socket's address."""
    return str(address[0]) if address else ""
