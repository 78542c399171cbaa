"""A TLS connection before its handshake is complete: it has a place and a deadline from the start.

The server itself runs without TLS (`tls_handshake.py` says why), so its connection handling is
done here.
"""

import asyncio
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.utils import get_remote_addr
from uvicorn.server import ServerState

from services.ingest import tls_handshake
from services.ingest.http.connections import Connections
from services.ingest.http.protocol_limits import LimitedProtocol


class Handshake(asyncio.Protocol):
    """A uvloop connection until its handshake is done."""

    transport: asyncio.Transport

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._http = _Secured(config, server_state, app_state, _loop)
        self._server = server_state
        self._state = app_state
        self._places: Connections = app_state["connections"]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a place and begin the handshake, or close at once."""
        self.transport = transport
        client = get_remote_addr(transport)
        if not self._places.add(self, client[0] if client else ""):
            transport.abort()
            return
        self._server.connections.add(self)  # type: ignore[arg-type]
        self._http.handshake = self
        seconds = self._http.settings.read_seconds
        done = tls_handshake.begin(transport, self._http, self._state["tls"], seconds)
        done.add_done_callback(self._on_done)

    def make_room(self) -> None:
        """Close, because another connection gets the place."""
        self.transport.abort()

    shutdown = make_room

    def leave(self) -> None:
        """Free the place, for the same connection after its handshake."""
        self._places.remove(self)
        self._server.connections.discard(self)

    def _on_done(self, done: "asyncio.Future[None]") -> None:
        self.leave()
        if not done.cancelled():
            done.exception()  # retrieved: no TLS, a bad certificate or a timeout; no client can be informed


class _Secured(LimitedProtocol):
    """HTTP after a handshake, whose place it takes over."""

    handshake: Handshake

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin in the handshake's place."""
        self.handshake.leave()
        super().connection_made(transport)
