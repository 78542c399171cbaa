"""Which of several writers lands: one has a lock in the first database that answers, others stand by.

Politeness and nothing more: that nothing lands twice is the word of epochs and ledgers, which
know no lock.  It belongs to a session of Postgres, so it is free the moment its process is
dead, and a process that is only slow keeps it (docs/adr/0024-several-machines.md).
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from hashlib import sha256
from time import monotonic
from typing import Final

import psycopg2
from psycopg2.extensions import connection

from services.writer.apart import apart
from services.writer.pool import connect, discard
from services.writer.positions import Positions
from services.writer.postgres import Database
from services.writer.status import Status
from shared.errors import OnrampError

log = logging.getLogger(__name__)

_ASK_SECONDS: Final = 0.5
#: After a database's restart its lock is free: whoever had it comes first.
_COURTESY_SECONDS: Final = 4.0
#: A machine that is gone without a word is noticed by the server after some ten seconds.
_NOTICED: Final = "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3"
_NEVER_ENDED: Final = "SET idle_session_timeout = 0"
_HAS_SUCH_TIMEOUT: Final = 140_000


async def stand_by(
    stack: AsyncExitStack,
    databases: Sequence[Database],
    positions: Positions,
    status: Status,
    stop: asyncio.Event,
) -> bool:
    """Wait until no other writer has the lock, and have it until `stack` ends; returns whether one had it."""
    if not databases:
        return False
    lock = Lock(databases, await positions.cluster_id())
    stack.callback(lock.close)
    stood = await _until_free(lock, status, stop)
    keeping = asyncio.create_task(_keep(lock), name="leadership")
    stack.callback(keeping.cancel)
    return stood


async def _until_free(lock: "Lock", status: Status, stop: asyncio.Event) -> bool:
    stood = False
    stopped = asyncio.create_task(stop.wait())
    try:
        while not stopped.done():
            asking = asyncio.create_task(apart(lock.ask))
            await asyncio.wait({asking, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done() or asking.result():
                asking.cancel()  # a database that hangs holds up no stop
                break
            if not stood:
                log.info("another writer lands: this one stands by", extra={"database": lock.place})
            stood = True
            status.stand_by(lock.place)
            await asyncio.wait({stopped}, timeout=_ASK_SECONDS)
    finally:
        stopped.cancel()
        status.stand_by("")
    return stood


async def _keep(lock: "Lock") -> None:
    while True:
        await asyncio.sleep(_ASK_SECONDS)
        await apart(lock.keep)


class Lock:
    """One writer's sessions in the databases, and which of them have the lock.  Its methods wait."""

    def __init__(self, databases: Sequence[Database], cluster_id: str) -> None:
        self._databases = databases
        self._key = int.from_bytes(
            sha256(f"onramp-writer {cluster_id}".encode()).digest()[:8], "big", signed=True
        )
        self._sessions: dict[str, connection] = {}
        self._held: set[str] = set()
        self._refused = False
        self._closed = False
        self._answers_since = monotonic()
        #: The database that was asked last.
        self.place = ""

    def ask(self) -> bool:
        """Whether this writer may land: it has the lock, or is new and there is no database to ask."""
        for database in self._databases:
            with suppress(psycopg2.Error, OnrampError):
                conn = self._session(database)
                if self.place != database.name:
                    self.place, self._answers_since = database.name, monotonic()
                if self._refused and monotonic() - self._answers_since < _COURTESY_SECONDS:
                    return False
                self._refused = not self._take(database, conn)
                return not self._refused
        return not self._refused

    def keep(self) -> None:
        """Have the lock in every database that answers, so that who comes finds it wherever it asks."""
        for database in self._databases:
            with suppress(psycopg2.Error, OnrampError):
                conn = self._session(database)
                if database.name not in self._held:
                    self._take(database, conn)

    def close(self) -> None:
        """Give up the lock, and every session."""
        self._closed = True
        for conn in list(self._sessions.values()):
            discard(conn)

    def _take(self, database: Database, conn: connection) -> bool:
        with conn.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_lock(%s)", (self._key,))
            if cursor.fetchone() == (True,):
                self._held.add(database.name)
        return database.name in self._held

    def _session(self, database: Database) -> connection:
        """A session that works: the one that there is, or a new one, which has no lock."""
        conn = self._sessions.get(database.name)
        if conn is not None and _works(conn):
            return conn
        self._held.discard(database.name)
        self._answers_since = monotonic()
        conn = self._sessions[database.name] = connect(database, "standby")
        if self._closed:
            discard(conn)
        with conn.cursor() as cursor:
            cursor.execute(_NOTICED)
            if conn.server_version >= _HAS_SUCH_TIMEOUT:
                cursor.execute(_NEVER_ENDED)
        return conn


def _works(conn: connection) -> bool:
    try:
        with conn.cursor() as cursor:
            cursor.execute("SELECT 1")
    except psycopg2.Error:
        discard(conn)
        return False
    return True
