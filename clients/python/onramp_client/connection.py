"""A keep-alive connection to the gateway, with a deadline for each whole answer."""

import http.client
import io
import socket
import ssl
import time
from contextlib import suppress
from typing import Any, Final

from .target import Target
from .verdicts import Answer

#: Maximum bytes of an answer; 10,000 receipts are a megabyte and a half.
_MAX_ANSWER: Final = 32 * 2**20


class UnsentError(OSError):
    """The body could not be sent as a whole."""


class _DeadlineSocket:
    """A socket with a total deadline, even if the other side sends a byte at a time."""

    def __init__(self, sock: socket.socket) -> None:
        self.deadline = 0.0
        self._sock = sock
        self._readers = 0
        self._closed = False

    def seconds_left(self) -> float:
        seconds = self.deadline - time.monotonic()
        if seconds <= 0:
            raise TimeoutError("the answer took too long")
        return seconds

    def sendall(self, data: bytes) -> None:
        try:
            self._sock.settimeout(self.seconds_left())
            self._sock.sendall(data)
        except OSError as error:
            raise UnsentError(f"{type(error).__name__} while sending") from error

    def recv_into(self, buffer: Any) -> int:
        self._sock.settimeout(self.seconds_left())
        return self._sock.recv_into(buffer)

    def makefile(self, _mode: str) -> io.BufferedReader:
        self._readers += 1
        return io.BufferedReader(_Reader(self))

    def reader_closed(self) -> None:
        self._readers -= 1
        self._close()

    def close(self) -> None:
        """Close once no answer reads from it: http.client closes the socket earlier."""
        self._closed = True
        self._close()

    def abort(self) -> None:
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def forget(self) -> None:
        """Close this copy only: after a fork the connection belongs to the parent."""
        with suppress(OSError):
            self._sock.close()

    def _close(self) -> None:
        if self._closed and not self._readers:
            self._sock.close()


class _Reader(io.RawIOBase):
    def __init__(self, sock: _DeadlineSocket) -> None:
        self._sock = sock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._sock.recv_into(buffer)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._sock.reader_closed()


class Connection:
    """A connection for one thread, except `abort` and `forget`."""

    def __init__(self, target: Target, timeout_seconds: float) -> None:
        self._target = target
        self._timeout_seconds = timeout_seconds
        self._context = ssl.create_default_context() if target.url.scheme == "https" else None
        self._connection: http.client.HTTPConnection | None = None
        self._socket: _DeadlineSocket | None = None

    def post(self, body: bytes, headers: dict[str, str]) -> Answer:
        """Send once and return the answer; reconnect if the connection was closed while idle.

        Raises:
            UnsentError: the body could not be sent as a whole, and there was no answer.
            OSError, http.client.HTTPException, ValueError: no answer, or not an HTTP answer.
        """
        deadline = time.monotonic() + self._timeout_seconds
        reused = self._connection is not None
        try:
            return self._post(body, headers, deadline)
        except (ConnectionError, UnsentError):
            if not reused:
                raise
            return self._post(body, headers, deadline)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
        self._connection = self._socket = None

    def abort(self) -> None:
        """End all waiting on the connection; callable from any thread."""
        if (sock := self._socket) is not None:
            sock.abort()

    def forget(self) -> None:
        """Leave the connection to the process that opened it."""
        if (sock := self._socket) is not None:
            sock.forget()

    def _post(self, body: bytes, headers: dict[str, str], deadline: float) -> Answer:
        try:
            connection = self._connect(deadline)
            try:
                connection.request("POST", self._target.selector, body, {**headers, **self._target.headers})
            except UnsentError:
                return self._answered_early(connection)
            return _read(connection.getresponse())
        except BaseException:
            self.close()  # The next request must not follow half of this one.
            raise

    def _answered_early(self, connection: http.client.HTTPConnection) -> Answer:
        """Return the answer to a body that was sent in part: a server may reject a body early."""
        try:
            answer = _read(connection.getresponse())
        except (OSError, http.client.HTTPException) as error:
            raise UnsentError("the connection broke while the events were sent") from error
        self.close()
        return answer

    def _connect(self, deadline: float) -> http.client.HTTPConnection:
        if self._connection is None or self._connection.sock is None:  # an answer may close it
            connection = self._target.connection(self._timeout_seconds, self._context)
            connection.connect()
            self._socket = _DeadlineSocket(connection.sock)
            connection.sock = self._socket
            self._connection = connection
        if self._socket is not None:
            self._socket.deadline = deadline
        return self._connection


def _read(response: http.client.HTTPResponse) -> Answer:
    with response:
        content = response.read(_MAX_ANSWER + 1)
        if len(content) > _MAX_ANSWER:
            raise ValueError("the answer is larger than any of the gateway's")
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)
        return Answer(response.status, {k.lower(): v for k, v in response.headers.items()}, content)
