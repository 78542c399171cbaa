"""Signs of life of a server: bytes that move on a connection, and its answer to a separate probe.

The probe is the GSSENCRequest of Postgres' protocol ("do you encrypt by GSSAPI?"), which needs no
role and no slot of `max_connections`. The probe is not the SSLRequest: a server that answers yes to that
one logs every client that disconnects then.
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
#: Linux' `struct tcp_info`: tcpi_bytes_acked and tcpi_bytes_received, at their offsets.
_MOVED: Final = struct.Struct("=120xQQ")
#: Errors of a running system without a server: it ends existing connections by itself.
_REFUSED: Final = (ConnectionRefusedError, ConnectionResetError, BrokenPipeError, FileNotFoundError)


class Address(NamedTuple):
    """The address of probes: the other end of a socket, or a host name to resolve."""

    family: int
    sockaddr: Any


def address_of(dsn: str) -> Address | None:
    """Return the server address of `dsn`; None if only libpq knows it, and `peer_of` returns it later."""
    options = parse_dsn(dsn)
    if options.get("service") or os.environ.get("PGSERVICE"):
        return None
    numeric = options.get("hostaddr") or os.environ.get("PGHOSTADDR")
    host = numeric or options.get("host") or os.environ.get("PGHOST", "")
    port = options.get("port") or os.environ.get("PGPORT") or str(_DEFAULT_PORT)
    if not host or "," in host or "," in port:
        return None
    if host.startswith(("/", "@")):
        return Address(socket.AF_UNIX, f"{host}/.s.PGSQL.{port}".replace("@", "\0", 1))
    return Address(socket.AF_UNSPEC, (host, int(port)))


def peer_of(own: socket.socket) -> Address | None:
    """Return the other end of `own`, independent of current name resolution; None if disconnected."""
    with suppress(OSError):
        return Address(own.family, own.getpeername())
    return None


class Moved(NamedTuple):
    """Byte counts of a connection: `taken` by the server's system, `given` by the server.

    The kernel of a stopped server still accepts data into its buffer, so only `given`
    proves that the process is alive.
    """

    taken: int = 0
    given: int = 0


def moved(own: socket.socket) -> Moved:
    """Return the counters of `own`; always zero on systems without them."""
    with suppress(OSError):
        if own.family == socket.AF_UNIX:
            return Moved(_bytes(own, termios.TIOCOUTQ), _bytes(own, termios.FIONREAD))
        if sys.platform == "linux":
            info = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _MOVED.size)
            return Moved(*_MOVED.unpack(info)) if len(info) == _MOVED.size else Moved()
    return Moved()


def _bytes(own: socket.socket, request: int) -> int:
    return int(struct.unpack("=i", fcntl.ioctl(own, request, bytes(4)))[0])


class Probe:
    """A probe of `address` by its own thread. Raises `RuntimeError` if no thread can be started."""

    def __init__(self, address: Address, seconds: float) -> None:
        self._answered = threading.Event()
        self._thread = threading.Thread(
            target=self._send_probe, args=(address, seconds), name="ask", daemon=True
        )
        self._thread.start()

    @property
    def answered(self) -> bool:
        """Return whether the server, or at least its system, has answered."""
        return self._answered.is_set()

    @property
    def open(self) -> bool:
        """Return whether an answer may still arrive."""
        return self._thread.is_alive()

    def _send_probe(self, address: Address, seconds: float) -> None:
        """Send the probe; any answer counts, including an error of the server's system."""
        with suppress(OSError, UnicodeError):  # no answer, or no such name
            try:
                with _connected(address, seconds) as server:
                    server.sendall(_QUESTION)
                    server.recv(1)
            except _REFUSED:
                pass
            self._answered.set()


def _connected(address: Address, seconds: float) -> socket.socket:
    if address.family == socket.AF_UNSPEC:
        return socket.create_connection(address.sockaddr, seconds)
    server = socket.socket(address.family)
    server.settimeout(seconds)
    try:
        server.connect(address.sockaddr)
    except BaseException:
        server.close()
        raise
    return server
