"""uvicorn's HTTP/1.1 protocol, which declines every offer to change the protocol.

A client may offer another protocol in any request (Java's HttpClient and `curl --http2` offer `h2c`), and a
server that does not want it answers the request as HTTP/1.1 (RFC 9110, section 7.8). llhttp stops behind the
headers of such a request: uvicorn 0.54 drops the body that it has read, and takes the rest of it for the next
request, which behind a proxy is request smuggling.
"""

import asyncio
from types import SimpleNamespace
from typing import Any

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState


class Http11Protocol(HttpToolsProtocol):
    """One connection."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        # The parser keeps what it is given here: a request without an offer pays nothing for the others.
        callbacks = SimpleNamespace(
            on_message_begin=self.on_message_begin,
            on_url=self.on_url,
            on_header=self.on_header,
            on_headers_complete=self.on_headers_complete,
            on_body=self.on_body,
            on_message_complete=self._on_message_complete,
        )
        self.parser = _parser(callbacks)

    def data_received(self, data: bytes) -> None:
        """Feed the parser; behind the headers of an offer, feed one that reads the body."""
        self._unset_keepalive_if_required()
        while not self.transport.is_closing():
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                data = data[offer.args[0] :]
                if self.parser.get_method() == b"CONNECT":
                    self.send_400_response("CONNECT asks for a tunnel, and this is no proxy.")
                    return
                self._decline()
            except httptools.HttpParserError:
                self.send_400_response("Invalid HTTP request received.")
                return
            else:
                return

    def _on_message_complete(self) -> None:
        # The parser takes a request with an offer for complete at the end of its headers.
        if not self.parser.should_upgrade():
            self.on_message_complete()

    def _decline(self) -> None:
        """Take a parser that has read this request's headers as if they had no offer."""
        line = b"%b / HTTP/%b\r\n" % (self.parser.get_method(), self.parser.get_http_version().encode())
        headers = b"".join(b"%b: %b\r\n" % each for each in self.headers if each[0] != b"upgrade")
        callbacks = _BehindHeaders(self)
        self.parser = _parser(callbacks)
        self.parser.feed_data(b"%b%b\r\n" % (line, headers))
        callbacks.is_behind_headers = True


def _parser(callbacks: object) -> httptools.HttpRequestParser:
    parser = httptools.HttpRequestParser(callbacks)
    # As uvicorn's own: bytes behind the last request of a connection are dropped, not an error.
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


class _BehindHeaders:
    """A parser's callbacks that leave out the headers of the first request: the protocol has them."""

    def __init__(self, protocol: Http11Protocol) -> None:
        self._protocol = protocol
        self.is_behind_headers = False
        self.on_body = protocol.on_body
        self.on_message_complete = protocol._on_message_complete  # noqa: SLF001 - one class in two

    def on_message_begin(self) -> None:
        if self.is_behind_headers:
            self._protocol.on_message_begin()

    def on_url(self, url: bytes) -> None:
        if self.is_behind_headers:
            self._protocol.on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.is_behind_headers:
            self._protocol.on_header(name, value)

    def on_headers_complete(self) -> None:
        if self.is_behind_headers:
            self._protocol.on_headers_complete()
