"""One kept-alive connection to the gateway, on which no answer takes longer than it may."""

import http.client
import io
import socket
import ssl
import time
from contextlib import suppress
from typing import Any, Final

from .target import Target
from .verdicts import Answer

#: 10,000 receipts are a megabyte and a half.
_MOST_ANSWER: Final = 32 * 2**20


class UnsentError(OSError):
    """The body did not get through."""


class _Timed:
    """A socket with a moment at which all waiting ends, however lively the other side drips."""

    def __init__(self, sock: socket.socket) -> None:
        self.until = 0.0
        self._sock = sock
        self._readers = 0
        self._closed = False

    def left(self) -> float:
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer took too long")
        return left

    def sendall(self, data: bytes) -> None:
        try:
            self._sock.settimeout(self.left())
            self._sock.sendall(data)
        except OSError as error:
            raise UnsentError(f"{type(error).__name__} while sending") from error

    def recv_into(self, buffer: Any) -> int:
        self._sock.settimeout(self.left())
        return self._sock.recv_into(buffer)

    def makefile(self, _mode: str) -> io.BufferedReader:
        self._readers += 1
        return io.BufferedReader(_Reader(self))

    def reader_closed(self) -> None:
        self._readers -= 1
        self._close()

    def close(self) -> None:
        """http.client closes the socket while its answer still reads from it."""
        self._closed = True
        self._close()

    def abort(self) -> None:
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def forget(self) -> None:
        """After a fork: the connection is the parent's, only this copy of it is closed."""
        with suppress(OSError):
            self._sock.close()

    def _close(self) -> None:
        if self._closed and not self._readers:
            self._sock.close()


class _Reader(io.RawIOBase):
    def __init__(self, timed: _Timed) -> None:
        self._timed = timed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._timed.recv_into(buffer)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._timed.reader_closed()


class Line:
    """One connection; for one thread, but for `abort` and `forget`."""

    def __init__(self, target: Target, timeout: float) -> None:
        self._target = target
        self._timeout = timeout
        self._context = ssl.create_default_context() if target.url.scheme == "https" else None
        self._connection: http.client.HTTPConnection | None = None
        self._timed: _Timed | None = None

    def post(self, body: bytes, headers: dict[str, str]) -> Answer:
        """Send once; a connection that was closed while it idled is made anew.

        Raises:
            UnsentError: the body did not get through, and there was no answer.
            OSError, http.client.HTTPException, ValueError: no answer came, or none that is HTTP.
        """
        until = time.monotonic() + self._timeout
        reused = self._connection is not None
        try:
            return self._post(body, headers, until)
        except (ConnectionError, UnsentError):
            if not reused:
                raise
            return self._post(body, headers, until)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
        self._connection = self._timed = None

    def abort(self) -> None:
        """End whatever it waits for; from any thread."""
        if (timed := self._timed) is not None:
            timed.abort()

    def forget(self) -> None:
        """Leave the connection to the process that made it."""
        if (timed := self._timed) is not None:
            timed.forget()

    def _post(self, body: bytes, headers: dict[str, str], until: float) -> Answer:
        try:
            connection = self._connected(until)
            try:
                connection.request("POST", self._target.selector, body, {**headers, **self._target.headers})
            except UnsentError:
                return self._answered_early(connection)
            return _read(connection.getresponse())
        except BaseException:
            self.close()  # What was half sent or half read must not be continued.
            raise

    def _answered_early(self, connection: http.client.HTTPConnection) -> Answer:
        """Who finds a body too large may say so and hang up before it has come."""
        try:
            answer = _read(connection.getresponse())
        except (OSError, http.client.HTTPException) as error:
            raise UnsentError("the connection broke while the events were sent") from error
        self.close()
        return answer

    def _connected(self, until: float) -> http.client.HTTPConnection:
        if self._connection is None or self._connection.sock is None:  # an answer may close it
            connection = self._target.connection(self._timeout, self._context)
            connection.connect()
            self._timed = _Timed(connection.sock)
            connection.sock = self._timed
            self._connection = connection
        if self._timed is not None:
            self._timed.until = until
        return self._connection


def _read(response: http.client.HTTPResponse) -> Answer:
    with response:
        content = response.read(_MOST_ANSWER + 1)
        if len(content) > _MOST_ANSWER:
            raise ValueError("the answer is larger than any of the gateway's")
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)
        return Answer(response.status, {k.lower(): v for k, v in response.headers.items()}, content)
