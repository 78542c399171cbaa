"""Deadlines on our side of a connection: a database that answers nothing is out, one that is busy is not.

A server that is stopped takes what is sent and answers nothing; none of its own timeouts runs,
and libpq waits without end.  So while a connection is in use, its server is asked beside it
whether it is there: by the first words of Postgres' protocol ("do you speak TLS?"), which need
no role and no slot of `max_connections`.  Who answers is alive, however long its statement, its
COPY or its lock takes.  Who does not is silent: the connections to it are cut, and the calls
that wait on them fail as when a connection is lost.

Time is counted in turns of the watch and not by the clock: a process that was stopped itself
must not take its databases for dead.
"""

import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from psycopg2.extensions import connection, parse_dsn

Address = tuple[str, int]
"""Host or folder of a socket, and port."""

#: https://www.postgresql.org/docs/current/protocol-message-formats.html: SSLRequest
_QUESTION: Final = struct.pack("!ii", 8, 80877103)
#: Turns of the watch in a database's patience: so many without a sign of life, then so many for an answer.
_TURNS: Final = 10
_QUIET: Final = 4
_DEFAULT_PORT: Final = 5432
#: A thread that asks ends at last; nobody waits for it.
_ASK_SECONDS: Final = 5.0


@dataclass(eq=False)
class Use:
    """One use of a connection, or of a connection to be."""

    address: Address | None
    turn_s: float
    silent: threading.Event = field(default_factory=threading.Event)
    #: A descriptor of our own: the connection's may be another's by the time it is cut.
    own: socket.socket | None = None

    def cut(self) -> None:
        """End every call that waits for an answer."""
        self.silent.set()
        if self.own is not None:
            with suppress(OSError):  # the other side was quicker
                self.own.shutdown(socket.SHUT_RDWR)


@dataclass(eq=False)
class _Server:
    """What is known of the server at one address, in turns of the watch."""

    uses: set[Use] = field(default_factory=set)
    quiet: int = 0
    answered: threading.Event | None = None

    def heard(self) -> None:
        self.quiet, self.answered = 0, None

    def is_silent(self, address: Address) -> bool:
        """One turn more without a sign of life."""
        if self.answered is not None and self.answered.is_set():
            self.heard()
        self.quiet += 1
        if self.answered is None and self.quiet >= _QUIET:
            self.answered = threading.Event()
            threading.Thread(target=_ask, args=(address, self.answered), name="ask", daemon=True).start()
        return self.quiet >= _TURNS


class Watch:
    """One process's.  Its thread waits while no connection is in use."""

    def __init__(self) -> None:
        self._servers: dict[Address, _Server] = {}
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="watch", daemon=True).start()

    @contextmanager
    def used(self, dsn: str, patience_s: float) -> Iterator[Use]:
        """Watch over the block: `patience_s` without an answer, and what waits in it is cut."""
        use = Use(address_of(dsn), patience_s / _TURNS)
        with self._changed:
            self._enter(use)
        try:
            yield use
        finally:
            with self._changed:
                self._leave(use)
                if use.own is not None:
                    use.own.close()

    def attach(self, use: Use, conn: connection) -> None:
        """`use` is of `conn` from now on."""
        own = socket.socket(fileno=os.dup(conn.fileno()))
        with self._changed:
            self._leave(use)
            if use.own is not None:  # of one that turned out to be broken
                use.own.close()
            use.own, use.address = own, (conn.info.host, conn.info.port)
            self._enter(use)

    def _enter(self, use: Use) -> None:
        if use.address is not None:
            self._servers.setdefault(use.address, _Server()).uses.add(use)
            self._changed.notify()

    def _leave(self, use: Use) -> None:
        if use.address is None:
            return
        server = self._servers[use.address]
        server.uses.discard(use)
        if not server.uses:
            del self._servers[use.address]
        elif not use.silent.is_set():
            server.heard()

    def _run(self) -> None:
        pause = threading.Event()
        while True:
            with self._changed:
                while not self._servers:
                    self._changed.wait()
                for address, server in self._servers.items():
                    if server.is_silent(address):
                        for use in server.uses:
                            use.cut()
                        server.heard()
                turn_s = min(use.turn_s for server in self._servers.values() for use in server.uses)
            pause.wait(turn_s)


def address_of(dsn: str) -> Address | None:
    """Where `dsn` leads to; None where only libpq knows: then the connection says it once it is there."""
    found = parse_dsn(dsn)
    host = found.get("hostaddr") or found.get("host") or os.environ.get("PGHOST", "")
    port = found.get("port") or os.environ.get("PGPORT") or _DEFAULT_PORT
    return None if not host or "," in host or "," in str(port) else (host, int(port))


def _ask(address: Address, answered: threading.Event) -> None:
    """Set `answered` when somebody is there, and be it to refuse."""
    with suppress(OSError):
        try:
            with _connected(address) as server:
                server.sendall(_QUESTION)
                server.recv(1)
        except (ConnectionRefusedError, ConnectionResetError):
            pass
        answered.set()


def _connected(address: Address) -> socket.socket:
    host, port = address
    if not host.startswith("/"):
        return socket.create_connection(address, _ASK_SECONDS)
    server = socket.socket(socket.AF_UNIX)
    server.settimeout(_ASK_SECONDS)
    server.connect(f"{host}/.s.PGSQL.{port}")
    return server
