"""uvicorn's HTTP/1.1 protocol that declines every protocol upgrade and every transfer coding but `chunked`.

A client may offer an upgrade in any request (Java's HttpClient and `curl --http2` offer `h2c`), and a
server that declines answers the request as HTTP/1.1 (RFC 9110, section 7.8). llhttp stops after the
headers of such a request: uvicorn 0.54 drops the body bytes read so far, and parses the rest as the next
request, which behind a proxy is request smuggling.  uvicorn also adds the trailers of a chunked body to the
headers, if they arrive in time: a client could add headers that a proxy has removed.

llhttp reads `Transfer-Encoding: gzip, chunked` as chunked. It reads chunks in HTTP/1.0 too, where a proxy
may see another end of the body.
"""

import asyncio
from types import SimpleNamespace
from typing import Any, Final

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

_NOT_IMPLEMENTED: Final = 501


class TransferCodingError(Exception):
    """The end of the body is unclear (400), or a transfer coding is not implemented (501)."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


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
        # The parser keeps these callbacks: a request without an upgrade has no extra cost.
        callbacks = SimpleNamespace(
            on_message_begin=self.on_message_begin,
            on_url=self.on_url,
            on_header=self.on_header,
            on_headers_complete=self.on_headers_complete,
            on_body=self.on_body,
            on_message_complete=self._on_message_complete,
        )
        self.parser = _parser(callbacks)
        #: The headers of the last request whose headers are complete.
        self._head: list[tuple[bytes, bytes]] = []

    def on_headers_complete(self) -> None:
        """Begin the request with its headers; trailers behind its body are no headers (RFC 9110, 6.5.1)."""
        # An exception ends the parser: nothing behind these headers is read.
        _check_transfer_codings(self.headers, self.parser.get_http_version())
        super().on_headers_complete()
        # The parser passes trailers to `on_header` too, which appends to this list.
        self._head, self.headers = self.headers, []

    def data_received(self, data: bytes) -> None:
        """Feed the parser; after the headers of an upgrade request, feed one that reads the body."""
        self._unset_keepalive_if_required()
        while not self.transport.is_closing():
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                data = data[offer.args[0] :]
                if self.parser.get_method() == b"CONNECT":
                    self.send_400_response("CONNECT asks for a tunnel, and this is no proxy.")
                    return
                if not self._decline():
                    self.send_400_response("Invalid HTTP request received.")
                    return
            except httptools.HttpParserError as error:
                self._refuse(error.__context__)
                return
            else:
                return

    def send_501_response(self, detail: str) -> None:
        """Answer that a transfer coding is not implemented, and close the connection."""
        headers = b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\ncontent-length: %d" % len(
            detail
        )
        self.transport.write(b"HTTP/1.1 501 Not Implemented\r\n%b\r\n\r\n%b" % (headers, detail.encode()))
        self.transport.close()

    def _refuse(self, cause: BaseException | None) -> None:
        if not isinstance(cause, TransferCodingError):
            self.send_400_response("Invalid HTTP request received.")
        elif cause.status == _NOT_IMPLEMENTED:
            self.send_501_response(cause.detail)
        else:
            self.send_400_response(cause.detail)

    def _on_message_complete(self) -> None:
        # The parser treats an upgrade request as complete at the end of its headers.
        if not self.parser.should_upgrade():
            self.on_message_complete()

    def _decline(self) -> bool:
        """Replace the parser by one that has read this request's headers without the upgrade.

        Return whether the headers say where the body ends: the parser checks it only without an upgrade.
        """
        line = b"%b / HTTP/%b\r\n" % (self.parser.get_method(), self.parser.get_http_version().encode())
        headers = b"".join(b"%b: %b\r\n" % each for each in self._head if each[0] != b"upgrade")
        callbacks = _BehindHeaders(self)
        self.parser = _parser(callbacks)
        try:
            self.parser.feed_data(b"%b%b\r\n" % (line, headers))
        except httptools.HttpParserError:
            return False
        callbacks.is_behind_headers = True
        return True


def _check_transfer_codings(headers: list[tuple[bytes, bytes]], version: str) -> None:
    """Raise `TransferCodingError` unless there is no coding, or `chunked` alone (RFC 9112, 6.1 and 6.3)."""
    values = [value for name, value in headers if name == b"transfer-encoding"]
    if not values:
        return
    codings = [each.strip(b" ").lower() for each in b",".join(values).split(b",")]
    if version == "1.0":
        raise TransferCodingError(400, "HTTP/1.0 has no Transfer-Encoding.")
    if codings[-1] != b"chunked" or codings.count(b"chunked") > 1:
        raise TransferCodingError(400, "The last transfer coding must be chunked, once.")
    if codings[:-1]:
        raise TransferCodingError(_NOT_IMPLEMENTED, "The only transfer coding is chunked.")


def _parser(callbacks: object) -> httptools.HttpRequestParser:
    parser = httptools.HttpRequestParser(callbacks)
    # Like uvicorn's own: bytes after the last request of a connection are dropped, not an error.
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


class _BehindHeaders:
    """Parser callbacks that skip the headers of the first request, which the protocol has already."""

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
