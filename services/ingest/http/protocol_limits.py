"""uvicorn's HTTP/1.1 protocol, with the limits that uvicorn lacks.

uvicorn 0.54 waits forever for a stalled header or body, and for a client that does not read its answer, and
takes any number of headers.  The parser is httptools, pinned: it rejects requests that have both
Content-Length and Transfer-Encoding, which h11 answers twice.
"""

import asyncio
import re
from collections import deque
from typing import Any, Final

from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.server import ServerState

from services.ingest.http import problems
from services.ingest.http.connections import Connections
from services.ingest.http.drain import Drain
from services.ingest.http.endpoint import new_request_id
from services.ingest.http.request_cycle import Cycle
from services.ingest.settings import IngestSettings
from shared.errors import (
    BAD_REQUEST,
    HEADERS_TOO_LARGE,
    OVERLOADED,
    REQUEST_TIMEOUT,
    TOO_MANY_CONNECTIONS,
    UNKNOWN_TRANSFER_CODING,
    Fault,
    InfrastructureError,
    Kind,
    UserError,
)
from shared.http11 import Http11Protocol

#: Pipelined requests behind the one that is answered: one read may bring thousands, 60 times their size.
_MAX_WAITING: Final = 100
#: Bytes of one of them in addition to its body.
_WAITING_BYTES: Final = 4096
_HOST: Final = re.compile(rb"[A-Za-z0-9._~%\[\]:-]*")
_NO_PLACE: Final = "the connection was closed to make room for another"

# uvicorn has no setting for the class of its cycles.
httptools_impl.RequestResponseCycle = Cycle  # type: ignore[assignment, misc]


class LimitedProtocol(Http11Protocol):
    """One connection."""

    cycle: Cycle
    pipeline: deque[tuple[Cycle, ASGI3Application]]  # type: ignore[assignment]

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        # uvicorn constructs protocols itself and passes them only the lifespan's state.
        self.settings: IngestSettings = app_state["settings"]
        self._max_headers = self.settings.max_headers
        self._max_header_bytes = self.settings.max_header_bytes
        self._drain: Drain = app_state["drain"]
        self._places: Connections = app_state["connections"]
        #: The request that is being answered; uvicorn's `cycle` is the latest, which may wait its turn.
        self._answering: RequestResponseCycle | None = None
        #: The request whose body is being read.
        self._reading: RequestResponseCycle | None = None
        #: The last answer: of a rejected request, sent once those before it are answered.
        self._rejection: bytes | None = None
        self._read_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._incomplete = True
        self._half_closed = False
        self._header_bytes = 0
        self._hosts = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a place and start the read timer, also for a client that connects and sends nothing."""
        super().connection_made(transport)
        if not self._places.add(self, self.client[0] if self.client else ""):
            self._reject(TOO_MANY_CONNECTIONS, f"{self._places.open} connections are open")
            return
        self._drain.connections.add(self)
        self._start_read_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Free the place, stop the timers, and notify the request that is being answered."""
        self._places.remove(self)
        self._stop_read_timer()
        self._stop_write_timer()
        if self._answering is not None:
            self._answering.disconnected = True
        for waiting, _ in self.pipeline:
            waiting.forget()
        super().connection_lost(exc)

    def close_after_answer(self) -> None:
        """Mark the current answer as the connection's last."""
        if self._answering is not None:
            self._answering.keep_alive = False

    def make_room(self) -> None:
        """Close for another connection. A request that was sent in part gets an answer."""
        if self.scheme == "https" or self.transport.get_write_buffer_size():
            self.transport.abort()  # a graceful end waits for the client
        elif self._incomplete and self.scope is not None:
            self._reject(TOO_MANY_CONNECTIONS, _NO_PLACE)
        else:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Feed the parser; the read timer runs only while a request is incomplete."""
        if not self._is_closing:
            super().data_received(data)
        if self._incomplete and not self._is_closing:
            self._start_read_timer()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep the connection open for the answer that is under way: the client may still read it."""
        # TLS connections cannot be half closed (asyncio warns about the attempt).
        complete = self.scheme == "http" and (not self._incomplete or self._rejection is not None)
        self._half_closed = complete and self._answering is not None and not self._answering.response_complete
        return self._half_closed

    def on_response_complete(self) -> None:
        """Close after the last answer to a client that cannot send any more."""
        last = not self.pipeline
        super().on_response_complete()
        if last and self._rejection is not None and not self.transport.is_closing():
            self._close_with(self._rejection)
        elif self._half_closed and self.cycle.response_complete:
            self.transport.close()
        if self.transport.is_closing():
            self._start_write_timer()
        self._update_waiting()

    def pause_writing(self) -> None:
        """Start the write timer: the client does not read, which is normal for a short time."""
        super().pause_writing()
        self._start_write_timer()
        self._update_waiting()

    def resume_writing(self) -> None:
        """Stop the write timer: the client has read."""
        super().resume_writing()
        self._update_waiting()
        if not self.transport.is_closing():
            self._stop_write_timer()

    def timeout_keep_alive_handler(self) -> None:
        """Start the write timer as well: the client may not have read the last answer."""
        super().timeout_keep_alive_handler()
        self._start_write_timer()

    def on_message_begin(self) -> None:
        """Reset the counts of a request at its first byte."""
        super().on_message_begin()
        self._reading = None
        self._incomplete = True
        self._header_bytes = 0
        self._hosts = 0
        self._update_waiting()

    def on_url(self, url: bytes) -> None:
        """Count the request line like a header."""
        self._header_bytes += len(url)
        self._check_headers()
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Check one more header against the limits."""
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > self._max_header_bytes or len(self.headers) >= self._max_headers:
            self._check_headers()
        name = name.lower()
        if name == b"host":
            self._check_host(value)
        elif name == b"expect":
            self.expect_100_continue |= value.lower() == b"100-continue"
        self.headers.append((name, value))  # instead of uvicorn, which would lower the name again

    def on_headers_complete(self) -> None:
        """Stop the read timer: the body has its own time."""
        self._stop_read_timer()
        if not self._hosts and self.parser.get_http_version() == "1.1":
            self._reject(BAD_REQUEST, "the Host header is missing")
        if len(self.pipeline) >= _MAX_WAITING:
            self._reject(
                BAD_REQUEST, f"{_MAX_WAITING} requests of this connection wait already: read their answers"
            )
        if not self._is_closing:
            super().on_headers_complete()
            self._reading = self.cycle
            if self.pipeline and not self.cycle.has_room(_WAITING_BYTES):
                self._reject(OVERLOADED, "requests of many connections wait behind others")

    def on_body(self, body: bytes) -> None:
        """Pass on a piece of the body."""
        if not self._is_closing and self.cycle.has_room(len(body)):
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop the read timer: the request is complete."""
        self._incomplete = False
        self._stop_read_timer()
        if not self._is_closing:
            super().on_message_complete()
            self._reading = None
            self._update_waiting()

    def send_400_response(self, msg: str) -> None:
        """Reject non-HTTP or ambiguous HTTP with a problem, and close the connection."""
        self._reject(BAD_REQUEST, msg)

    def send_501_response(self, detail: str) -> None:
        """Reject a transfer coding with a problem, and close the connection."""
        self._reject(UNKNOWN_TRANSFER_CODING, detail)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answering = cycle
        if self._drain.started:
            self.close_after_answer()
        super()._start_asgi_task(cycle, app)

    def _update_waiting(self) -> None:
        """Record which side must act: the gateway from a whole request to its answer, else the client."""
        answering = self._answering
        if answering is None or answering.response_complete or answering.more_body or self.flow.write_paused:
            self._places.wait(self)
        else:
            self._places.work(self)

    def _check_host(self, value: bytes) -> None:
        self._hosts += 1
        if self._hosts > 1 or not _HOST.fullmatch(value):
            self._reject(BAD_REQUEST, "the Host header is not a host and port")

    def _check_headers(self) -> None:
        if self._header_bytes > self._max_header_bytes:
            self._reject(HEADERS_TOO_LARGE, f"the limit is {self._max_header_bytes} bytes")
        elif len(self.headers) >= self._max_headers:
            self._reject(HEADERS_TOO_LARGE, f"the limit is {self._max_headers} headers")

    def _start_read_timer(self) -> None:
        if self._read_timer is None:
            self._read_timer = self.loop.call_later(self.settings.read_seconds, self._on_read_timeout)

    def _stop_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _on_read_timeout(self) -> None:
        self._read_timer = None
        self._reject(REQUEST_TIMEOUT, f"the limit is {self.settings.read_seconds:g} s")

    def _start_write_timer(self) -> None:
        # Closing waits until the client has read the buffer: without a timer, forever.
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self.settings.read_seconds, self.transport.abort)

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    @property
    def _is_closing(self) -> bool:
        return self._rejection is not None or self.transport.is_closing()

    def _reject(self, fault: Fault, detail: str) -> None:
        if self._is_closing:
            return
        self._stop_read_timer()
        reading = self._reading
        # An answered request is not rejected as well: the client would count two answers.
        answered = reading is not None and reading.response_started
        self._rejection = b"" if answered else self._problem(fault, detail)
        for waiting in [each for each in self.pipeline if each[0] is reading]:
            self.pipeline.remove(waiting)
            waiting[0].forget()
        if not self._must_answer_before(reading):
            self._close_with(self._rejection)

    def _must_answer_before(self, reading: RequestResponseCycle | None) -> bool:
        """Return whether an answer must be complete before `reading` is rejected."""
        answering = self._answering
        if answering is None or answering.response_complete:
            return False
        return answering is not reading or answering.response_started

    def _close_with(self, rejection: bytes) -> None:
        self.transport.write(rejection)
        self.transport.close()
        self._start_write_timer()

    def _problem(self, fault: Fault, detail: str) -> bytes:
        error = (InfrastructureError if fault.kind is Kind.WAITING else UserError)(fault, detail)
        return problems.answer(error, new_request_id(), self.settings.retry_after_seconds).as_last()
