"""HTTP pages of a service whose loop may be busy: threads of their own answer, also while it works.

A client may open connections and send nothing: each connection ends after a timeout, and above a bound the
oldest one is closed.
"""

import logging
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self

log = logging.getLogger(__name__)

#: Seconds without data after which a client's connection is closed.
SILENT_SECONDS = 10.0
#: Each has a thread; probes and a Prometheus need a few.
MAX_CONNECTIONS: Final = 32

JSON: Final = "application/json"
#: The status, the content type and the body of a page.
Answer = tuple[HTTPStatus, str, bytes]
Pages = Mapping[str, Callable[[], Answer]]


def alive() -> Answer:
    """Return the answer of /healthz."""
    return HTTPStatus.OK, JSON, b'{"status":"alive"}'


class PageServer:
    """Serves pages by path over HTTP from a thread of its own."""

    def __init__(self, pages: Pages, host: str, port: int) -> None:
        """Bind the port.  Raises `OSError` when it is taken."""
        self._server = _Server((host, port), _handler(pages))
        self._thread = threading.Thread(target=self._server.serve_forever, name="pages", daemon=True)

    @property
    def port(self) -> int:
        """Return the bound port."""
        return self._server.server_port

    def start(self) -> Self:
        """Start to answer."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop and free the port."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    """Retains the newest connections, so that a probe is answered, however many others are open."""

    #: With the default of five, a probe behind others waits for seconds.
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self._lock = threading.Lock()
        self._open: dict[socket.socket, None] = {}

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open[request] = None
            if len(self._open) > MAX_CONNECTIONS:
                self._end_oldest()
        super().process_request(request, client_address)

    def _end_oldest(self) -> None:
        oldest = next(iter(self._open))
        del self._open[oldest]
        with suppress(OSError):  # its client may have gone just now
            oldest.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, *_: object) -> None:
        """Log an error of the server; a client that disconnects is not an error."""
        if not isinstance(error := sys.exception(), OSError):
            log.error("a page could not be built", exc_info=error)


def _handler(pages: Pages) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = SILENT_SECONDS

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
