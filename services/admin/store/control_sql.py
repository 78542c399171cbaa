"""The control database: parked events are stored there, in the admin service's own schema.

Owns psycopg2 for this package, with the files next to it.
"""

import secrets
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from importlib.resources import files
from typing import Final

import psycopg2
from psycopg2.extensions import TRANSACTION_STATUS_IDLE, connection

from shared.errors import DATABASE_UNAVAILABLE, DATABASE_UNFIT, InfrastructureError
from shared.migrations import Migrations
from shared.postgres.connect import can_write
from shared.postgres.connect import connect as opened
from shared.postgres.failures import failure

SCHEMA: Final = "onramp_admin"
#: A job's step waits for other databases in its transaction, so a role's own short timeout would end it
#: each time.
_OPTIONS: Final = (
    "-c search_path=pg_catalog,pg_temp -c timezone=UTC -c statement_timeout={statement_ms} "
    "-c idle_in_transaction_session_timeout=600000"
)
_READ_MS: Final = 10_000
_FILES: Final = files(__package__) / "sql"
_LOCK: Final = 7_203_155_011
_CURSOR_KEY_BYTES: Final = 32
#: Classes of SQLSTATE about the stored data: a trigger, a constraint or an index that an operator added may
#: refuse it.
_OF_VALUES: Final = frozenset({"0A", "21", "22", "23", "38", "39", "44", "54", "P0"})
#: Maximum concurrent requests of a database, and seconds that others wait.
MAX_CONNECTIONS: Final = 8
_TURN_SECONDS: Final = 5.0


def connect(dsn: str, *, statement_ms: int = _READ_MS) -> connection:
    """Open a connection.  Raises `InfrastructureError`."""
    with translated():
        return opened(dsn, name="onramp-admin", options=_OPTIONS.format(statement_ms=statement_ms))


class Pool:
    """A connection pool: few connections for many requests, each with one transaction at a time."""

    def __init__(self, dsn: str, max_connections: int = MAX_CONNECTIONS) -> None:
        self._dsn = dsn
        self._turns = threading.BoundedSemaphore(max_connections)
        #: `append` and `pop` need no lock.
        self._idle: list[connection] = []

    @contextmanager
    def transaction(self) -> Iterator[connection]:
        """Lend a connection for one transaction.  Raises `InfrastructureError`, also when none is free."""
        if not self._turns.acquire(timeout=_TURN_SECONDS):
            raise InfrastructureError(
                DATABASE_UNAVAILABLE, "the control database: all connections are in use"
            )
        try:
            with translated():
                conn = self._take()
                try:
                    with conn:
                        yield conn
                finally:
                    self._give_back(conn)
        finally:
            self._turns.release()

    def _take(self) -> connection:
        """Return a usable connection: an outage may have closed idle ones, or left them read-only."""
        while self._idle:
            conn = self._idle.pop()
            if _answers(conn):
                return conn
            conn.close()
        return connect(self._dsn)

    def _give_back(self, conn: connection) -> None:
        if conn.closed:
            return
        if conn.info.transaction_status == TRANSACTION_STATUS_IDLE:
            self._idle.append(conn)
        else:
            conn.close()


def _answers(conn: connection) -> bool:
    try:
        return can_write(conn)
    except psycopg2.Error:
        return False


@lru_cache(maxsize=1)
def _pool(dsn: str) -> Pool:
    """Return the pool of the control database; a service has one."""
    return Pool(dsn)


def transaction(dsn: str) -> AbstractContextManager[connection]:
    """Lend a connection for one transaction.  Raises `InfrastructureError`."""
    return _pool(dsn).transaction()


@contextmanager
def translated() -> Iterator[None]:
    """Turn psycopg2's errors, whose messages may hold values, into `InfrastructureError`."""
    try:
        yield
    except psycopg2.Error as e:
        raise InfrastructureError(DATABASE_UNAVAILABLE, failure("the control database", e)) from None


class RefusedError(Exception):
    """The database permanently refuses some of the data; `sqlstate` is the cause."""

    def __init__(self, sqlstate: str) -> None:
        super().__init__(f"SQLSTATE {sqlstate}")
        self.sqlstate = sqlstate


@contextmanager
def refused() -> Iterator[None]:
    """Turn psycopg2's errors about the stored data into `RefusedError`."""
    try:
        yield
    except psycopg2.Error as e:
        if (e.pgcode or "")[:2] in _OF_VALUES:
            raise RefusedError(str(e.pgcode)) from None
        raise


def prepare(conn: connection) -> None:
    """Bring the schema up to date, in the caller's transaction.  Raises `InfrastructureError`."""
    with conn.cursor() as cursor:
        cursor.execute("SELECT current_setting('server_encoding')")
        if cursor.fetchone() != ("UTF8",):
            raise InfrastructureError(
                DATABASE_UNFIT,
                "the control database is not encoded in UTF8, so it cannot keep every name: "
                "name another one in ONRAMP_ADMIN_DSN",
            )
        Migrations(schema=SCHEMA, files=_FILES, lock=_LOCK).apply(conn, "of ONRAMP_ADMIN_DSN")
        cursor.execute(
            "INSERT INTO onramp_admin.installation (cursor_key) VALUES (%s) ON CONFLICT DO NOTHING",
            (secrets.token_bytes(_CURSOR_KEY_BYTES),),
        )


def cursor_key(conn: connection) -> bytes:
    """Return the key that signs cursors; the same for all replicas of the service."""
    with conn.cursor() as cursor:
        cursor.execute("SELECT cursor_key FROM onramp_admin.installation")
        ((key,),) = cursor.fetchall()
        return bytes(key)
