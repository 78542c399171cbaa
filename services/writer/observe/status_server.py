"""HTTP for a `Status`: /healthz, /readyz and /metrics, answered by threads of their own.

They answer while the loop is busy, which is when they matter.
"""

import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import orjson
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from services.writer.observe.status import Status


class StatusServer:
    """Serves a `Status` over HTTP from a thread of its own."""

    def __init__(self, status: Status, host: str, port: int) -> None:
        """Bind the port.  Raises `OSError` when it is taken."""
        self._server = ThreadingHTTPServer((host, port), _handler(status))
        self._thread = threading.Thread(target=self._server.serve_forever, name="status", daemon=True)

    @property
    def port(self) -> int:
        """The port that was bound."""
        return self._server.server_port

    def start(self) -> Self:
        """Start to answer."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop and free the port."""
        self._server.shutdown()
        self._server.server_close()


Answer = tuple[HTTPStatus, str, bytes]


def _handler(status: Status) -> type[BaseHTTPRequestHandler]:
    pages: Mapping[str, Callable[[], Answer]] = {
        "/healthz": lambda: (HTTPStatus.OK, "application/json", b'{"status":"alive"}'),
        "/readyz": lambda: readyz(status),
        "/metrics": lambda: (HTTPStatus.OK, CONTENT_TYPE_LATEST, status.page()),
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path)
            known = ", ".join(pages)
            code, kind, body = page() if page else (HTTPStatus.NOT_FOUND, "text/plain", known.encode())
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing: probes ask every second."""

    return Handler


def readyz(status: Status) -> Answer:
    """Return the answer of /readyz."""
    ready, reason = status.ready()
    document: dict[str, Any] = {
        "status": status.state,
        "reason": reason,
        "databases": status.databases,
        "reasons": status.reasons,
        "remarks": status.warnings,
        "batch_seconds": status.batch_seconds(),
        "holds": status.holds,
        "unknown_databases": status.unknown_databases,
        "open_transactions": status.open_transactions(),
        "halted_partitions": {str(p): why for p, why in status.halted_partitions.items()},
    }
    # A standby is as ready as it can be: a rollout waits for it before it ends the other writer.
    is_ready = ready or status.state == "standby"
    return (
        HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE,
        "application/json",
        orjson.dumps(document),
    )
