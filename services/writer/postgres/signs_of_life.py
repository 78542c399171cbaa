"""Signs of life of a server: what moves on a connection to it, and its answer to a question beside it.

The question is one of the first words of Postgres' protocol ("do you encrypt by GSSAPI?"), which
needs no role and no slot of `max_connections`.  It is not the one for TLS: a server that says yes
to that one logs every asker who then goes away.
"""

import fcntl
import os
import socket
import struct
import sys
import termios
import threading
from contextlib import suppress
from typing import Any, Final, NamedTuple

from psycopg2.extensions import parse_dsn

#: https://www.postgresql.org/docs/current/protocol-message-formats.html: GSSENCRequest
_QUESTION: Final = struct.pack("!ii", 8, 80877104)
_DEFAULT_PORT: Final = 5432
#: Linux' `struct tcp_info`: tcpi_bytes_acked and tcpi_bytes_received, where they stand.
_MOVED: Final = struct.Struct("=120xQQ")
#: Answers of a system on which nobody listens: it ends the connections that it has by itself.
_REFUSED: Final = (ConnectionRefusedError, ConnectionResetError, BrokenPipeError, FileNotFoundError)


class Address(NamedTuple):
    """Where a server is asked: the other end of a socket, or a name that is still to be looked up."""

    family: int
    place: Any


def address_of(dsn: str) -> Address | None:
    """Where `dsn` leads to; None where only libpq knows: then the connection says it once it is there."""
    found = parse_dsn(dsn)
    if found.get("service") or os.environ.get("PGSERVICE"):
        return None
    numeric = found.get("hostaddr") or os.environ.get("PGHOSTADDR")
    host = numeric or found.get("host") or os.environ.get("PGHOST", "")
    port = found.get("port") or os.environ.get("PGPORT") or str(_DEFAULT_PORT)
    if not host or "," in host or "," in port:
        return None
    if host.startswith(("/", "@")):
        return Address(socket.AF_UNIX, f"{host}/.s.PGSQL.{port}".replace("@", "\0", 1))
    return Address(socket.AF_UNSPEC, (host, int(port)))


def peer_of(own: socket.socket) -> Address | None:
    """The other end of `own`, whatever its name has come to mean since; None when it is lost."""
    with suppress(OSError):
        return Address(own.family, own.getpeername())
    return None


class Moved(NamedTuple):
    """Counters of a connection that stand still when the process at the other end does.

    Of a stopped one the kernel still takes what its buffer has room for: what was given says
    more than what was taken.
    """

    taken: int = 0
    given: int = 0


def moved(own: socket.socket) -> Moved:
    """What has moved on `own` until now; the same always where the system does not tell."""
    with suppress(OSError):
        if own.family == socket.AF_UNIX:
            return Moved(_bytes(own, termios.TIOCOUTQ), _bytes(own, termios.FIONREAD))
        if sys.platform == "linux":
            info = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _MOVED.size)
            return Moved(*_MOVED.unpack(info)) if len(info) == _MOVED.size else Moved()
    return Moved()


def _bytes(own: socket.socket, what: int) -> int:
    return int(struct.unpack("=i", fcntl.ioctl(own, what, bytes(4)))[0])


class Question:
    """Whether somebody is at `address`, asked from a thread.  `RuntimeError`: there can be none."""

    def __init__(self, address: Address, seconds: float) -> None:
        self._answered = threading.Event()
        self._thread = threading.Thread(target=self._ask, args=(address, seconds), name="ask", daemon=True)
        self._thread.start()

    @property
    def answered(self) -> bool:
        """Whether somebody is there."""
        return self._answered.is_set()

    @property
    def open(self) -> bool:
        """Whether an answer may still come."""
        return self._thread.is_alive()

    def _ask(self, address: Address, seconds: float) -> None:
        """Who answers is there, and be it to refuse."""
        with suppress(OSError, UnicodeError):  # nobody, or nobody of that name
            try:
                with _connected(address, seconds) as server:
                    server.sendall(_QUESTION)
                    server.recv(1)
            except _REFUSED:
                pass
            self._answered.set()


def _connected(address: Address, seconds: float) -> socket.socket:
    if address.family == socket.AF_UNSPEC:
        return socket.create_connection(address.place, seconds)
    server = socket.socket(address.family)
    server.settimeout(seconds)
    try:
        server.connect(address.place)
    except BaseException:
        server.close()
        raise
    return server
