"""Opens connections that a silent server cannot block, and tracks silent servers.

A silent server is probed in the background until it answers; until then no caller waits for it again.
So a caller that serves many databases in turn spends its time on those that answer.
"""

import math
import os
import select
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from typing import Final

import psycopg2
from psycopg2.extensions import connection

from shared.errors import DATABASE_UNAVAILABLE, InfrastructureError
from shared.postgres.deadlines import Use, Watch
from shared.postgres.signs_of_life import Address, Probe, address_of

#: Seconds without a sign of life, for callers that can wait.
PATIENCE_SECONDS: Final = 3.0
#: Seconds between two checks whether an awaited connection was cut.
_POLL_SECONDS: Final = 0.05
#: Seconds that a silent server has to answer a probe; then it is probed again.
_PROBE_SECONDS: Final = 5.0

_WATCHES: dict[int, Watch] = {}
_LOCK: Final = threading.Lock()


class SilentServerError(InfrastructureError):
    """The server gave no sign of life; `server` is its name in messages."""

    server = ""


class PersistentConnection:
    """A connection that stays open between uses: opened by the first, watched in each.

    A use that follows the end of the session (a restart of the server, `idle_session_timeout`) opens another.
    """

    def __init__(
        self, name: str, dsn: str, open_: Callable[[], connection], patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        """`name`: the server's name in messages; `open_` opens a connection to `dsn`."""
        self._name = name
        self._dsn = dsn
        self._open = open_
        self._patience_s = patience_seconds
        self._conn: connection | None = None

    @contextmanager
    def used(self) -> Iterator[connection]:
        """Lend the connection to the block, which must commit.

        Raises `InfrastructureError` (no answer) if its server gives no sign of life for the
        patience, and at once while the server is known to be silent; other errors unchanged.
        """
        if SILENT_SERVERS.lasts(self._dsn):
            self.close()
            raise silent(self._name, self._patience_s)
        with own_watch().used(self._dsn, self._patience_s) as use:
            try:
                conn = self._attached(use)
                if conn is not None:
                    yield conn
                    return
            except Exception:
                if not use.silent.is_set():  # else it is the error that the cut caused
                    raise
        self.close()
        SILENT_SERVERS.add(self._dsn, use.address)
        raise silent(self._name, self._patience_s)

    def close(self) -> None:
        """Close the connection; the next use opens another one."""
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def _attached(self, use: Use) -> connection | None:
        if self._conn is not None and has_ended(self._conn):
            self.close()
        if self._conn is None:
            self._conn = opened(self._open, own_watch(), use)
        else:
            own_watch().attach(use, self._conn)
        return self._conn


@contextmanager
def answering(
    name: str, dsn: str, open_: Callable[[], connection], patience_seconds: float = PATIENCE_SECONDS
) -> Iterator[connection]:
    """Lend the connection that `open_` opens to one block, and close it. Raises like `used`."""
    with closing(PersistentConnection(name, dsn, open_, patience_seconds)) as kept, kept.used() as conn:
        yield conn


def has_ended(conn: connection) -> bool:
    """Return whether the server has ended the session, without a round trip."""
    try:
        while not conn.closed and is_readable(conn.fileno(), 0):
            conn.poll()
    except psycopg2.Error:
        return True
    return bool(conn.closed)


def is_readable(fileno: int, seconds: float) -> bool:
    """Wait for readable data; `select.select` rejects a process with a thousand open files."""
    waiting = select.poll()
    waiting.register(fileno, select.POLLIN)
    return bool(waiting.poll(math.ceil(seconds * 1000)))


def opened(open_: Callable[[], connection], watch: Watch, use: Use) -> connection | None:
    """Connect in a thread, because libpq would wait for a silent server; None if `use` is cut before."""
    future: Future[connection] = Future()
    threading.Thread(target=_opening, args=(future, open_), daemon=True).start()
    while not use.silent.is_set():
        with suppress(TimeoutError):
            conn = future.result(_POLL_SECONDS)
            watch.attach(use, conn)
            return conn
    future.add_done_callback(_discard_late)
    return None


def own_watch() -> Watch:
    """Return the watch of this process: a forked process does not inherit threads."""
    with _LOCK:
        pid = os.getpid()
        return _WATCHES.get(pid) or _WATCHES.setdefault(pid, Watch())


def silent(name: str, patience_seconds: float) -> SilentServerError:
    """Return the error for a server that gave no sign of life."""
    error = SilentServerError(
        DATABASE_UNAVAILABLE,
        f"{name} does not answer: no sign of life from its server in {patience_seconds:g} s",
    )
    error.server = name
    return error


class SilentServers:
    """The silent servers: each is probed by its own thread until it answers."""

    def __init__(self) -> None:
        self._probes: dict[str, tuple[Address, Probe]] = {}
        self._lock = threading.Lock()

    def add(self, dsn: str, address: Address | None) -> None:
        """Record that the server of `dsn` was silent; one whose address only libpq knows cannot be probed."""
        where = address or address_of(dsn)
        if where is not None:
            self._start_probe(dsn, where)

    def lasts(self, dsn: str) -> bool:
        """Return whether the server was silent and has not answered since."""
        with self._lock:
            entry = self._probes.get(dsn)
        if entry is None:
            return False
        where, probe = entry
        if probe.answered:
            with self._lock:
                self._probes.pop(dsn, None)
            return False
        if not probe.open:
            self._start_probe(dsn, where)
        return True

    def _start_probe(self, dsn: str, where: Address) -> None:
        with suppress(RuntimeError, MemoryError):  # no thread is available; probed next time
            probe = Probe(where, _PROBE_SECONDS)
            with self._lock:
                self._probes[dsn] = (where, probe)


SILENT_SERVERS: Final = SilentServers()


def _opening(future: "Future[connection]", open_: Callable[[], connection]) -> None:
    try:
        future.set_result(open_())
    except BaseException as e:  # noqa: BLE001 - raised in the waiting thread
        future.set_exception(e)


def _discard_late(future: "Future[connection]") -> None:
    """Close a connection that came after its deadline."""
    if not future.exception():
        with suppress(psycopg2.Error):
            future.result().close()
