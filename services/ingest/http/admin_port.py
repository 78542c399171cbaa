"""The pages for operators, on a port of their own: what they say is no sender's business.

Each worker listens on it and any of them answers: metrics are everybody's, and whether Kafka is
reached is the same for all.  It speaks HTTP with the same limits as the gateway's own port.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import uvicorn
from uvicorn.server import ServerState

from services.ingest.asgi import AsgiReceive, AsgiSend, Scope
from services.ingest.http.drain import Leaving
from services.ingest.http.protocol_limits import LimitedProtocol
from services.ingest.settings import IngestSettings
from shared.errors import NOT_FOUND, UserError

App = Callable[[Scope, AsgiReceive, AsgiSend], Awaitable[None]]
#: What leaves the gateway's own port when there is another; /healthz stands on both.
PRIVATE: Final = frozenset({"/metrics", "/readyz", "/docs", "/redoc", "/openapi.json"})
#: Set by the admin port on its requests, which nobody can from outside.
ADMIN: Final = "onramp.admin"


def refuse_hidden(scope: Scope, settings: IngestSettings) -> None:
    """Raise `UserError` NOT_FOUND for a page that is asked for at the wrong port."""
    if settings.admin_port and ADMIN not in scope and scope["path"].rstrip("/") in PRIVATE:
        raise UserError(NOT_FOUND, "this page is on the port for operators")


class AdminPort:
    """The second port; started and stopped by `app.py`."""

    def __init__(self, settings: IngestSettings, leaving: Leaving) -> None:
        self._settings = settings
        self._state = {"settings": settings, "leaving": leaving}
        self._connections = ServerState()
        self._server: asyncio.Server | None = None

    async def start(self, app: App) -> None:
        """Listen, if there is such a port; several workers share it."""
        if not self._settings.admin_port:
            return

        async def admin(scope: Scope, receive: AsgiReceive, send: AsgiSend) -> None:
            await app({**scope, ADMIN: True}, receive, send)

        config = uvicorn.Config(
            admin,
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
        """Take no more, and let idle connections go."""
        if self._server is not None:
            self._server.close()
            for connection in list(self._connections.connections):
                connection.shutdown()
