"""The routes for operators, on a separate port: their content is not for senders.

Each worker listens on it and any of them answers: metrics are those of all workers, and whether Kafka
is reachable is the same for all.  HTTP has the same limits as on the gateway's own port.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import uvicorn
from uvicorn.server import ServerState

from services.ingest.asgi import AsgiReceive, AsgiSend, Scope
from services.ingest.http.connections import Connections
from services.ingest.http.protocol_limits import LimitedProtocol
from services.ingest.process.open_files import ADMIN_CONNECTIONS
from services.ingest.settings import IngestSettings
from shared.errors import NOT_FOUND, UserError

App = Callable[[Scope, AsgiReceive, AsgiSend], Awaitable[None]]
#: Served by this port only, if there is one; /healthz is served by both.
PRIVATE: Final = frozenset({"/metrics", "/figures", "/readyz", "/docs", "/redoc", "/openapi.json"})
#: The key that marks the scope of a request to this port; no client can set it.
ADMIN: Final = "onramp.admin"


def reject_hidden(scope: Scope, settings: IngestSettings) -> None:
    """Raise `UserError` NOT_FOUND for a route for operators at the gateway's own port."""
    if settings.admin_port and ADMIN not in scope and scope["path"].rstrip("/") in PRIVATE:
        raise UserError(NOT_FOUND, "this page is only on the port for operators")


class AdminPort:
    """The port for operators, if there is one; started and stopped by `app.py`."""

    def __init__(self, settings: IngestSettings, state: Mapping[str, Any]) -> None:
        self._settings = settings
        # Separate places: a health check does not wait for the gateway's clients.
        self._state = {**state, "connections": Connections(ADMIN_CONNECTIONS, is_public=False)}
        self._connections = ServerState()
        self._server: asyncio.Server | None = None

    async def start(self, app: App) -> None:
        """Listen, if a port is set; all workers share it."""
        if not self._settings.admin_port:
            return

        async def admin(scope: Scope, receive: AsgiReceive, send: AsgiSend) -> None:
            await app({**scope, ADMIN: True}, receive, send)

        config = uvicorn.Config(
            admin,
            http=LimitedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            timeout_keep_alive=self._settings.keep_alive_seconds,
        )
        config.load()
        self._server = await asyncio.get_running_loop().create_server(
            lambda: LimitedProtocol(config, self._connections, self._state),
            self._settings.admin_host,
            self._settings.admin_port,
            reuse_port=True,
        )

    def stop(self) -> None:
        """Stop accepting connections, and close idle ones."""
        if self._server is not None:
            self._server.close()
            for connection in list(self._connections.connections):
                connection.shutdown()
