"""Client-side deadlines of connections: a database that does not answer is down, a busy one is not.

A stopped server accepts data and answers nothing; none of its own timeouts runs,
and libpq waits without limit.  So a connection in use is watched: bytes that move on it are a sign
of life. Without any, the server is probed on another connection, more than once. A server
that answers is alive, however long its statement, COPY or lock takes. A server that does not is
silent: the connections to it are shut down, and the calls that wait on them fail as if the
connection were lost.

Time is counted in turns of the watch and not by the clock: a process that was stopped itself
must not treat its databases as dead.
"""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

from psycopg2.extensions import connection

from shared.postgres.signs_of_life import Address, Moved, Probe, address_of, moved, peer_of

#: Turns of the watch within the shortest patience (the seconds without a sign of life).
_TURNS: Final = 10
#: Parts of the patience after which the server is probed, first and again: a probe may be lost on
#: the network, so no single one decides.
_PROBE_AFTER: Final = 0.3
_PROBE_AGAIN_AFTER: Final = 0.2
#: Maximum concurrent probes.
_OPEN: Final = 8
#: A longer turn could miss the deadline of a use with less patience that begins during it.
_MAX_TURN_SECONDS: Final = 0.1
_NOTHING: Final = Moved()


@dataclass(eq=False)
class Use:
    """A use of a connection, open or being opened; `patience_seconds`: seconds until it is cut."""

    address: Address | None
    patience_seconds: float
    silent: threading.Event = field(default_factory=threading.Event)
    #: A duplicate descriptor: the original may belong to another socket by the time of the cut.
    own: socket.socket | None = None
    _: KW_ONLY
    quiet_s: float = 0.0
    _moved: Moved = _NOTHING

    @property
    def turn_s(self) -> float:
        """Return the seconds between two checks of it."""
        return min(self.patience_seconds / _TURNS, _MAX_TURN_SECONDS)

    def count_moved(self) -> bool:
        """Record the bytes moved since the last check; return whether the server sent any."""
        if self.own is None:
            return False
        before, self._moved = self._moved, moved(self.own)
        if before != self._moved:
            self.quiet_s = 0.0
        return before.given != self._moved.given

    def attach(self, own: socket.socket) -> None:
        """Start watching the connection of `own`."""
        if self.own is not None:  # the previous connection was broken
            self.own.close()
        self.own, self.address = own, peer_of(own)
        self.quiet_s, self._moved = 0.0, moved(own)
        if self.silent.is_set():  # connected after its deadline
            self.cut()

    def wait(self, turn_s: float) -> None:
        """Count a turn without a sign of life; cut the connection when the patience is over."""
        self.quiet_s += min(turn_s, self.turn_s)
        if self.quiet_s >= self.patience_seconds:
            self.cut()

    def cut(self) -> None:
        """Shut the socket down, so that every call that waits on it fails."""
        self.silent.set()
        if self.own is not None:
            with suppress(OSError):  # the other side has closed it already
                self.own.shutdown(socket.SHUT_RDWR)


@dataclass(eq=False)
class _Server:
    """The uses of one server address, and the probes sent to it."""

    uses: set[Use] = field(default_factory=set)
    probes: list[Probe] = field(default_factory=list)
    #: Seconds since the last sign of life or the last probe.
    since_probe_s: float = 0.0
    is_probed: bool = False

    def note_answer(self) -> None:
        self.since_probe_s, self.is_probed = 0.0, False
        for use in self.uses:
            use.quiet_s = 0.0

    def turn(self, address: Address, turn_s: float) -> None:
        """Run one turn of the watch."""
        gave = [use.count_moved() for use in self.uses]
        if any(gave) or any(probe.answered for probe in self.probes):
            self.note_answer()
        self.probes = [probe for probe in self.probes if probe.open and not probe.answered]
        waiting = [use for use in self.uses if not use.silent.is_set()]
        if waiting and self._probe_if_due(address, waiting, turn_s):
            for use in waiting:
                use.wait(turn_s)

    def _probe_if_due(self, address: Address, waiting: list[Use], turn_s: float) -> bool:
        """Probe when due; return False if that was impossible, so that the state is unknown."""
        self.since_probe_s += turn_s
        part = _PROBE_AGAIN_AFTER if self.is_probed else _PROBE_AFTER
        if (
            self.since_probe_s >= part * min(use.patience_seconds for use in waiting)
            and len(self.probes) < _OPEN
        ):
            try:
                self.probes.append(Probe(address, max(use.patience_seconds for use in waiting)))
            except (RuntimeError, MemoryError):  # no thread is available; probed next time
                return False
            self.since_probe_s, self.is_probed = 0.0, True
        return True


class Watch:
    """The watch of one process: a thread that sleeps while no connection is in use."""

    def __init__(self) -> None:
        self._servers: dict[Address, _Server] = {}
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="watch", daemon=True).start()

    @contextmanager
    def used(self, dsn: str, patience_seconds: float) -> Iterator[Use]:
        """Watch the block: after `patience_seconds` seconds without an answer its waiting calls fail."""
        use = Use(address_of(dsn), patience_seconds)
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
        """Start watching `conn` for `use`."""
        own = socket.socket(fileno=os.dup(conn.fileno()))
        with self._changed:
            self._leave(use)
            use.attach(own)
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
        elif use.count_moved():
            server.note_answer()

    def _run(self) -> None:
        pause = threading.Event()
        turn_s = 0.0
        while True:
            with self._changed:
                while not self._servers:
                    self._changed.wait()
                for address, server in self._servers.items():
                    server.turn(address, turn_s)
                turn_s = min(use.turn_s for server in self._servers.values() for use in server.uses)
            pause.wait(turn_s)
