"""HTTP of the tracer: /healthz, /readyz, /status and /metrics, answered by threads of their own."""

import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

import orjson
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from services.tracer.rounds import Rounds
from services.tracer.status import status

Answer = tuple[HTTPStatus, str, bytes]
_JSON: Final = "application/json"
_SILENT_SECONDS: Final = 10.0


class Pages:
    """The server; it begins to answer when it is constructed.  Raises `OSError` when the port is taken."""

    def __init__(self, host: str, port: int, rounds: Rounds, registry: CollectorRegistry) -> None:
        pages: Mapping[str, Callable[[], Answer]] = {
            "/healthz": lambda: (HTTPStatus.OK, _JSON, b'{"status":"alive"}'),
            "/readyz": lambda: _readyz(rounds),
            "/status": lambda: (HTTPStatus.OK, _JSON, _status(rounds)),
            "/metrics": lambda: (HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(registry)),
        }
        self._server = ThreadingHTTPServer((host, port), _handler(pages))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="pages", daemon=True).start()

    @property
    def port(self) -> int:
        """Return the bound port."""
        return self._server.server_port

    def stop(self) -> None:
        """Stop and free the port."""
        self._server.shutdown()
        self._server.server_close()


def _status(rounds: Rounds) -> bytes:
    return orjson.dumps({"tracers": status(rounds.tracers(), rounds.refusals)})


def _readyz(rounds: Rounds) -> Answer:
    """Return 200 once a tracer of this process has landed, else the refusals."""
    code = HTTPStatus.OK if rounds.landed else HTTPStatus.SERVICE_UNAVAILABLE
    return code, _JSON, orjson.dumps({"landed": rounds.landed, "refusals": rounds.refusals})


def _handler(pages: Mapping[str, Callable[[], Answer]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _SILENT_SECONDS

        def do_GET(self) -> None:
            page = pages.get(self.path)
            code, kind, body = page() if page else (HTTPStatus.NOT_FOUND, "text/plain", b"not found")
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing: probes ask often."""

    return Handler
