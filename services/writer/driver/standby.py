"""Leader election: one writer has a lock in the first database that answers, the others are on standby.

The lock only avoids needless take-overs.  Epochs and ledgers, which do not depend on the lock, ensure that
nothing lands twice.  The lock belongs to a Postgres session: it is free as soon as its process is dead,
and a process that is only slow keeps it (docs/adr/0024-standby-writers-and-quotas.md).
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

from services.writer.driver.collector import watch_kafka
from services.writer.kafka.cluster import Cluster
from services.writer.observe.status import Status
from services.writer.postgres.database import Database
from services.writer.postgres.database_threads import in_own_thread
from services.writer.postgres.pool import discard, watched
from shared.errors import OnrampError

log = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.5
_NOT_IN_RECOVERY: Final = "SELECT NOT pg_is_in_recovery()"
#: After a database's restart its lock is free: a standby waits so long, so that its last owner may take it.
_COURTESY_SECONDS: Final = 4.0
#: A database that does not answer for so long counts as unreachable.
_LIVENESS_SECONDS: Final = 5.0
#: The lock's session is normally idle.  Postgres 13 has no such setting.
_NO_SESSION_TIMEOUT: Final = (
    "SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'idle_session_timeout'"
)


async def stand_by(
    stack: AsyncExitStack,
    databases: Sequence[Database],
    cluster: Cluster,
    status: Status,
    stop: asyncio.Event,
    *,
    poll_seconds: float,
) -> bool:
    """Wait for the lock and keep it until `stack` ends; return whether another writer had it.

    Meanwhile Kafka is polled every `poll_seconds` seconds: /readyz shows its state before a take-over.
    """
    if not databases:
        return False
    lock = Lock(databases, await cluster.cluster_id())
    stack.push_async_callback(in_own_thread, lock.close)
    watching = asyncio.create_task(watch_kafka(cluster, status, poll_seconds))
    try:
        waited = await _until_free(lock, status, stop)
    finally:
        watching.cancel()
    keeping = asyncio.create_task(_keep_lock(lock), name="leadership")
    stack.callback(keeping.cancel)
    return waited


async def _until_free(lock: "Lock", status: Status, stop: asyncio.Event) -> bool:
    waited = False
    stopped = asyncio.create_task(stop.wait())
    try:
        while not stopped.done():
            request = asyncio.create_task(in_own_thread(lock.ask))
            await asyncio.wait({request, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not request.done() or request.result():
                request.cancel()  # a database that hangs must not delay a stop
                break
            if not waited:
                log.info(
                    "another writer lands: this one is on standby", extra={"database": lock.database_name}
                )
            waited = True
            status.update_standby(lock.database_name)
            await asyncio.wait({stopped}, timeout=_POLL_SECONDS)
    finally:
        stopped.cancel()
        status.update_standby("")
    return waited


async def _keep_lock(lock: "Lock") -> None:
    while True:
        await asyncio.sleep(_POLL_SECONDS)
        await in_own_thread(lock.keep)


class Lock:
    """One writer's sessions in the databases, and the databases in which it has the lock.  Methods block.

    No method waits for a database that hangs: all are queried at once, each with a liveness timeout.
    """

    def __init__(self, databases: Sequence[Database], cluster_id: str) -> None:
        # With longer timeouts: a session that ends loses its lock.
        self._databases = [
            replace(d, liveness_timeout_seconds=max(d.liveness_timeout_seconds, _LIVENESS_SECONDS))
            for d in databases
        ]
        self._key = int.from_bytes(
            sha256(f"onramp-writer {cluster_id}".encode()).digest()[:8], "big", signed=True
        )
        self._sessions: dict[str, connection] = {}
        self._locked: set[str] = set()
        self._is_taken = False
        self._closed = False
        #: The start of each database's uninterrupted answers (monotonic seconds).
        self._answers_since: dict[str, float] = {}
        #: The last database in which the lock was requested, and the time of the first such request.
        self.database_name = ""
        self._requested_since = monotonic()

    def ask(self) -> bool:
        """Return whether this writer may land: it has the lock, or it is new and no database answers."""
        for database in self._answering()[:1]:
            if self.database_name != database.name:
                self.database_name, self._requested_since = database.name, monotonic()
            since = max(self._answers_since[database.name], self._requested_since)
            if self._is_taken and monotonic() - since < _COURTESY_SECONDS:
                return False
            self._is_taken = not self._take(database)
        return not self._is_taken

    def keep(self) -> None:
        """Take the lock in every database that answers, so that a new writer finds it in each of them."""
        for database in self._answering():
            if database.name not in self._locked:
                self._take(database)

    def close(self) -> None:
        """Close every session, which frees the lock."""
        self._closed = True
        for conn in list(self._sessions.values()):
            discard(conn)

    def _take(self, database: Database) -> bool:
        if self._query(database, "SELECT pg_try_advisory_lock(%s)", self._key) == (True,):
            self._locked.add(database.name)
        return database.name in self._locked

    def _answering(self) -> list[Database]:
        """Return the databases with a working session, in configured order."""
        with ThreadPoolExecutor(len(self._databases), "standby") as threads:
            answers = threads.map(self._answers, self._databases)
            return [d for d, answered in zip(self._databases, answers, strict=True) if answered]

    def _answers(self, database: Database) -> bool:
        """Return whether a session to `database` works: the existing one, or a new one without the lock."""
        # A session to a server in recovery has its lock there, and not on the primary that others query.
        if database.name in self._sessions and self._query(database, _NOT_IN_RECOVERY) == (True,):
            return True
        self._answers_since[database.name] = monotonic()
        self._close(database)
        return self._query(database, _NO_SESSION_TIMEOUT) is not None

    def _query(self, database: Database, question: str, *parameters: object) -> tuple[object, ...] | None:
        """Return the answer of the session to `database`; None when it failed and was closed."""
        try:
            with watched(database, "standby", self._sessions.get(database.name)) as conn:
                self._sessions[database.name] = conn
                if self._closed:
                    discard(conn)
                return _fetch_row(conn, question, parameters)
        except (psycopg2.Error, OnrampError):
            self._close(database)
            return None

    def _close(self, database: Database) -> None:
        self._locked.discard(database.name)
        lost = self._sessions.pop(database.name, None)
        if lost is not None:
            discard(lost)


def _fetch_row(conn: connection, question: str, parameters: Sequence[object]) -> tuple[object, ...]:
    with conn.cursor() as cursor:
        cursor.execute(question, parameters)
        return tuple(cursor.fetchone() or ())
