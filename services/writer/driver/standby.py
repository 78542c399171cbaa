"""Which of several writers lands: one has a lock in the first database that answers, others stand by.

Politeness and nothing more: that nothing lands twice is the word of epochs and ledgers, which
know no lock.  It belongs to a session of Postgres, so it is free the moment its process is
dead, and a process that is only slow keeps it (docs/adr/0024-several-machines.md).
"""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import replace
from hashlib import sha256
from time import monotonic
from typing import Final

import psycopg2
from psycopg2.extensions import connection

from services.writer.kafka.cluster import Cluster
from services.writer.observe.status import Status
from services.writer.postgres.database import Database
from services.writer.postgres.database_threads import in_own_thread
from services.writer.postgres.pool import discard, kept
from shared.errors import OnrampError

log = logging.getLogger(__name__)

_ASK_SECONDS: Final = 0.5
#: After a database's restart its lock is free: whoever had it comes first.
_COURTESY_SECONDS: Final = 4.0
#: Who says nothing for so long holds up nobody any more.
_SILENT_SECONDS: Final = 5.0
#: A machine that is gone without a word is noticed by the server after some ten seconds.
_NOTICED: Final = "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3"
_NEVER_ENDED: Final = "SET idle_session_timeout = 0"
_HAS_SUCH_TIMEOUT: Final = 140_000


async def stand_by(
    stack: AsyncExitStack,
    databases: Sequence[Database],
    cluster: Cluster,
    status: Status,
    stop: asyncio.Event,
) -> bool:
    """Wait until no other writer has the lock, and have it until `stack` ends; returns whether one had it."""
    if not databases:
        return False
    lock = Lock(databases, await cluster.cluster_id())
    stack.push_async_callback(in_own_thread, lock.close)
    stood = await _until_free(lock, status, stop)
    keeping = asyncio.create_task(_keep(lock), name="leadership")
    stack.callback(keeping.cancel)
    return stood


async def _until_free(lock: "Lock", status: Status, stop: asyncio.Event) -> bool:
    stood = False
    stopped = asyncio.create_task(stop.wait())
    try:
        while not stopped.done():
            asking = asyncio.create_task(in_own_thread(lock.ask))
            await asyncio.wait({asking, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done() or asking.result():
                asking.cancel()  # a database that hangs holds up no stop
                break
            if not stood:
                log.info("another writer lands: this one stands by", extra={"database": lock.place})
            stood = True
            status.update_standby(lock.place)
            await asyncio.wait({stopped}, timeout=_ASK_SECONDS)
    finally:
        stopped.cancel()
        status.update_standby("")
    return stood


async def _keep(lock: "Lock") -> None:
    while True:
        await asyncio.sleep(_ASK_SECONDS)
        await in_own_thread(lock.keep)


class Lock:
    """One writer's sessions in the databases, and which of them have the lock.  Its methods wait.

    None of them waits for a database that hangs: all are asked at once, and who says nothing is out.
    """

    def __init__(self, databases: Sequence[Database], cluster_id: str) -> None:
        # Patient ones: a session that is over has lost its lock.
        self._databases = [replace(d, silent_s=max(d.silent_s, _SILENT_SECONDS)) for d in databases]
        self._key = int.from_bytes(
            sha256(f"onramp-writer {cluster_id}".encode()).digest()[:8], "big", signed=True
        )
        self._sessions: dict[str, connection] = {}
        self._held: set[str] = set()
        self._refused = False
        self._closed = False
        #: Since when each database answers, without a break.
        self._answers_since: dict[str, float] = {}
        #: The database that was asked last, and since when it is that one.
        self.place = ""
        self._place_since = monotonic()

    def ask(self) -> bool:
        """Whether this writer may land: it has the lock, or is new and there is no database to ask."""
        for database in self._answering()[:1]:
            if self.place != database.name:
                self.place, self._place_since = database.name, monotonic()
            since = max(self._answers_since[database.name], self._place_since)
            if self._refused and monotonic() - since < _COURTESY_SECONDS:
                return False
            self._refused = not self._take(database)
        return not self._refused

    def keep(self) -> None:
        """Have the lock in every database that answers, so that who comes finds it wherever it asks."""
        for database in self._answering():
            if database.name not in self._held:
                self._take(database)

    def close(self) -> None:
        """Give up the lock, and every session."""
        self._closed = True
        for conn in list(self._sessions.values()):
            discard(conn)

    def _take(self, database: Database) -> bool:
        if self._said(database, "SELECT pg_try_advisory_lock(%s)", self._key) == (True,):
            self._held.add(database.name)
        return database.name in self._held

    def _answering(self) -> list[Database]:
        """The databases with a session that works, in their order."""
        with ThreadPoolExecutor(len(self._databases), "standby") as threads:
            answers = threads.map(self._answers, self._databases)
            return [d for d, answered in zip(self._databases, answers, strict=True) if answered]

    def _answers(self, database: Database) -> bool:
        """Whether a session works there: the one that there is, or a new one, which has no lock."""
        if database.name in self._sessions and self._said(database, "SELECT 1"):
            return True
        self._answers_since[database.name] = monotonic()
        return self._said(database, _NOTICED) is not None

    def _said(self, database: Database, question: str, *given: object) -> tuple[object, ...] | None:
        """What our session there answers; None: nothing, and there is no session any more."""
        try:
            with kept(database, "standby", self._sessions.get(database.name)) as conn:
                self._sessions[database.name] = conn
                if self._closed:
                    discard(conn)
                return _answer(conn, question, given)
        except (psycopg2.Error, OnrampError):
            self._held.discard(database.name)
            lost = self._sessions.pop(database.name, None)
            if lost is not None:
                discard(lost)
            return None


def _answer(conn: connection, question: str, given: Sequence[object]) -> tuple[object, ...]:
    with conn.cursor() as cursor:
        cursor.execute(question, given)
        if cursor.description:
            return tuple(cursor.fetchone() or ())
        if conn.server_version >= _HAS_SUCH_TIMEOUT:
            cursor.execute(_NEVER_ENDED)
    return ()
