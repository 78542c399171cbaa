"""HTTP/1.1 as uvicorn speaks it, with the limits that uvicorn lacks.

uvicorn 0.54 waits for ever for a stalled header or body, and for a client that does not read
its answer, and takes any number of headers.
The parser is httptools, pinned: it refuses requests that carry both Content-Length and
Transfer-Encoding, which h11 answers twice.
"""

import asyncio
import re
from typing import Any, Final

from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from services.ingest.http import problems
from services.ingest.http.drain import Leaving
from services.ingest.http.endpoint import new_request_id
from services.ingest.http.request_cycle import Cycle
from services.ingest.settings import IngestSettings
from shared.errors import BAD_REQUEST, HEADERS_TOO_LARGE, REQUEST_TIMEOUT, Fault, UserError

_HOST: Final = re.compile(rb"[A-Za-z0-9._~%\[\]:-]*")
_REASONS: Final = {400: b"Bad Request", 408: b"Request Timeout", 431: b"Request Header Fields Too Large"}

# uvicorn names no place for a cycle of one's own.
httptools_impl.RequestResponseCycle = Cycle  # type: ignore[assignment, misc]


class LimitedProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        # uvicorn makes protocols from a class; the lifespan's state is what it hands them.
        self.settings: IngestSettings = app_state["settings"]
        self._leaving: Leaving = app_state["leaving"]
        #: The request that is being answered; uvicorn remembers the latest, which may wait in line.
        self._answering: RequestResponseCycle | None = None
        #: The request whose body is being read, and what is said of it once those before it are answered.
        self._own: RequestResponseCycle | None = None
        self._refusal: bytes | None = None
        self._late: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._incomplete = True
        self._ended = False
        self._header_bytes = 0
        self._hosts = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client that connects and says nothing is late as well."""
        super().connection_made(transport)
        self._leaving.connections.add(self)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody to be late any more."""
        self._in_time()
        self._was_read()
        if self._answering is not None:
            self._answering.disconnected = True
        super().connection_lost(exc)

    def leave(self) -> None:
        """The answer that is under way says that it is the last."""
        if self._answering is not None:
            self._answering.keep_alive = False

    def data_received(self, data: bytes) -> None:
        """Feed the parser; a clock runs only while a message is incomplete."""
        if not self._deaf:
            super().data_received(data)
        if self._incomplete and not self._deaf:
            self._wait()

    def eof_received(self) -> bool:  # type: ignore[override]
        """A client that has said everything may still listen: it gets the answer that is under way."""
        # Of TLS there is no half that stays open (asyncio warns of who wants it).
        said = self.scheme == "http" and (not self._incomplete or self._refusal is not None)
        self._ended = said and self._answering is not None and not self._answering.response_complete
        return self._ended

    def on_response_complete(self) -> None:
        """Nothing more can come from one who has said everything."""
        last = not self.pipeline
        super().on_response_complete()
        if last and self._refusal is not None and not self.transport.is_closing():
            self._end(self._refusal)
        elif self._ended and self.cycle.response_complete:
            self.transport.close()
        if self.transport.is_closing():
            self._await_reader()

    def pause_writing(self) -> None:
        """The client does not read: for a while that is the network's way, then it is closed."""
        super().pause_writing()
        self._await_reader()

    def resume_writing(self) -> None:
        """The client has read."""
        super().resume_writing()
        if not self.transport.is_closing():
            self._was_read()

    def timeout_keep_alive_handler(self) -> None:
        """Whoever has not read the last answer by now gets no more than its time."""
        super().timeout_keep_alive_handler()
        self._await_reader()

    def on_message_begin(self) -> None:
        """A request's first byte."""
        super().on_message_begin()
        self._own = None
        self._incomplete = True
        self._header_bytes = 0
        self._hosts = 0

    def on_url(self, url: bytes) -> None:
        """The request line counts as a header."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One more header."""
        self._count(len(name) + len(value))
        if name.lower() == b"host":
            self._check_host(value)
        if len(self.headers) >= self.settings.max_headers:
            self._refuse(HEADERS_TOO_LARGE, f"the limit is {self.settings.max_headers} headers")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The body's clock starts anew."""
        self._in_time()
        if not self._hosts and self.parser.get_http_version() == "1.1":
            self._refuse(BAD_REQUEST, "the Host header is missing")
        if not self._deaf:
            super().on_headers_complete()
            self._own = self.cycle

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if not self._deaf:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is here."""
        self._incomplete = False
        self._in_time()
        if not self._deaf:
            super().on_message_complete()
            self._own = None

    def send_400_response(self, msg: str) -> None:
        """What is not HTTP, or ambiguous HTTP: answered as a problem, and the connection closed."""
        self._refuse(BAD_REQUEST, msg)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answering = cycle
        if self._leaving.begun:
            self.leave()
        super()._start_asgi_task(cycle, app)

    def _check_host(self, value: bytes) -> None:
        self._hosts += 1
        if self._hosts > 1 or not _HOST.fullmatch(value):
            self._refuse(BAD_REQUEST, "the Host header is not a host and port")

    def _count(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > self.settings.max_header_bytes:
            self._refuse(HEADERS_TOO_LARGE, f"the limit is {self.settings.max_header_bytes} bytes")

    def _wait(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(self.settings.read_seconds, self._too_late)

    def _in_time(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _too_late(self) -> None:
        self._late = None
        self._refuse(REQUEST_TIMEOUT, f"the limit is {self.settings.read_seconds:g} s")

    def _await_reader(self) -> None:
        # Closing waits for what is buffered, and without a clock for ever.
        if self._unread is None:
            self._unread = self.loop.call_later(self.settings.read_seconds, self.transport.abort)

    def _was_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    @property
    def _deaf(self) -> bool:
        return self._refusal is not None or self.transport.is_closing()

    def _refuse(self, fault: Fault, detail: str) -> None:
        if self._deaf:
            return
        self._in_time()
        own = self._own
        # What is answered already is not refused as well: the client would count two answers.
        self._refusal = b"" if own is not None and own.response_started else _refusal(fault, detail)
        for waiting in [each for each in self.pipeline if each[0] is own]:
            self.pipeline.remove(waiting)
        if not self._awaited(own):
            self._end(self._refusal)

    def _awaited(self, own: RequestResponseCycle | None) -> bool:
        """Whether an answer must be whole before anything else is said."""
        now = self._answering
        if now is None or now.response_complete:
            return False
        return now is not own or now.response_started

    def _end(self, refusal: bytes) -> None:
        self.transport.write(refusal)
        self.transport.close()
        self._await_reader()


def _refusal(fault: Fault, detail: str) -> bytes:
    answer = problems.answer(UserError(fault, detail), new_request_id(), 1)
    head = b"HTTP/1.1 %d %s\r\ncontent-type: %s\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (
        answer.status,
        _REASONS[answer.status],
        answer.media_type,
        len(answer.body),
    )
    return head + answer.body
