"""Pools connections to Postgres from batch to batch, within the limit of a process.

A connection is rolled back and checked (one round trip) before every use, and closed if it does
not work.  At the limit a caller waits; an idle connection of another role is closed to free its slot.
"""

import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

import psycopg2
from psycopg2.extensions import TRANSACTION_STATUS_IDLE, connection

from services.writer.model.connection_budget import OF_THE_DRIVER
from services.writer.postgres import unusable
from services.writer.postgres.database import Database
from services.writer.postgres.error_faults import translate
from shared.errors import InfrastructureError
from shared.postgres.answering import opened, own_watch, silent
from shared.postgres.connect import can_write
from shared.postgres.connect import connect as opened_at
from shared.postgres.deadlines import Use, Watch

#: Roles that own tables; they use `ddl_dsn`, if it is configured.
_OWNERS: Final = frozenset({"ddl", "migrate"})
_ALWAYS_COMMITTED: Final = frozenset({"ddl", "standby"})


class Pool:
    """One process's connections to one database."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._room = threading.BoundedSemaphore(OF_THE_DRIVER)
        self._lock = threading.Lock()
        self._used = 0
        self._free: dict[tuple[str, str], list[connection]] = defaultdict(list)

    @contextmanager
    def connected(self, database: Database, role: str) -> Iterator[connection]:
        """Lend a connection to the block.  Raise `InfrastructureError` if no connection is available."""
        with self._room, self._watch.used(_dsn(database, role), database.liveness_timeout_seconds) as use:
            with self._lock:
                self._used += 1
            conn = None
            try:
                conn = self._sound(database, role, use) or self._connect(database, role, use)
                yield conn
            except Exception:
                if use.silent.is_set():  # whichever error the cut has caused
                    raise _silent(database) from None
                raise
            finally:
                self._give_back(database, role, conn)

    @contextmanager
    def watched(self, database: Database, role: str, conn: connection | None) -> Iterator[connection]:
        """Watch `conn`, which the caller owns, or a new one, in the block.  Raise as `connected` does."""
        with self._watch.used(_dsn(database, role), database.liveness_timeout_seconds) as use:
            try:
                if conn is None:
                    conn = self._connect(database, role, use)
                else:
                    self._watch.attach(use, conn)
                yield conn
            except Exception:
                if use.silent.is_set():  # whichever error the cut has caused
                    raise _silent(database) from None
                raise

    def close(self) -> None:
        """Close every idle connection."""
        with self._lock:
            self._make_room(keep=0)

    def _sound(self, database: Database, role: str, use: Use) -> connection | None:
        """Return a working idle connection, or None after freeing a slot for a new one."""
        free = self._free[role, database.options]
        while True:
            with self._lock:
                if not free:
                    self._make_room(keep=OF_THE_DRIVER - self._used)
                    return None
                conn = free.pop()
            if conn.closed:
                continue
            self._watch.attach(use, conn)
            if _is_sound(conn):
                return conn
            if use.silent.is_set():
                raise _silent(database)

    def _connect(self, database: Database, role: str, use: Use) -> connection:
        conn = opened(partial(connect, database, role), self._watch, use)
        if conn is None:
            raise _silent(database)
        return conn

    def _give_back(self, database: Database, role: str, conn: connection | None) -> None:
        with self._lock:
            self._used -= 1
            if conn is not None and not conn.closed:
                if database.keep:
                    self._free[role, database.options].append(conn)
                else:
                    discard(conn)

    def _make_room(self, keep: int) -> None:
        """Close idle connections until at most `keep` are left."""
        left = sum(map(len, self._free.values()))
        for free in self._free.values():
            while free and left > keep:
                discard(free.pop())
                left -= 1


_POOLS: dict[tuple[int, str], Pool] = {}
_POOLS_LOCK: Final = threading.Lock()


@contextmanager
def connected(database: Database, role: str) -> Iterator[connection]:
    """Lend a connection to `database` for `role` ("land", "ddl", "migrate", "driver") to the block.

    Raise `InfrastructureError` if the database cannot be reached.
    """
    with _pool_of(database).connected(database, role) as conn:
        yield conn


@contextmanager
def watched(database: Database, role: str, conn: connection | None) -> Iterator[connection]:
    """Watch `conn`, or a new connection outside of the pool that the caller then owns, in the block.

    No call in the block waits forever.  Raise `InfrastructureError` if the database cannot be
    reached, or does not answer.
    """
    with _pool_of(database).watched(database, role, conn) as session:
        yield session


def _pool_of(database: Database) -> Pool:
    with _POOLS_LOCK:
        pid = os.getpid()
        if (pid, database.dsn) not in _POOLS:
            _POOLS[pid, database.dsn] = Pool(own_watch())
        return _POOLS[pid, database.dsn]


@contextmanager
def transaction(database: Database, role: str) -> Iterator[connection]:
    """Run the block as a transaction: commit at its end, or roll back and raise `OnrampError`."""
    with connected(database, role) as conn:
        try:
            yield conn
            conn.commit()
        except psycopg2.Error as e:
            _roll_back(conn)
            raise unusable.of_database(e, conn, database, role) from None
        except BaseException:
            _roll_back(conn)
            raise


def _roll_back(conn: connection) -> None:
    try:
        conn.rollback()
    except psycopg2.Error:
        discard(conn)


def _dsn(database: Database, role: str) -> str:
    return database.ddl_dsn if role in _OWNERS and database.ddl_dsn else database.dsn


def _silent(database: Database) -> InfrastructureError:
    return silent(f"database {database.name}", database.liveness_timeout_seconds)


def connect(database: Database, role: str) -> connection:
    """Open a connection outside of the pool, owned by the caller.  Raise `OnrampError`."""
    dsn = _dsn(database, role)
    try:
        conn = opened_at(dsn, name=f"onramp-writer {role}", options=database.options)
    except psycopg2.Error as e:
        raise translate(e, database) from None
    except InfrastructureError as e:
        raise InfrastructureError(e.fault, f"database {database.name}: {e.detail}") from None
    conn.autocommit = role in _ALWAYS_COMMITTED
    return conn


def _is_sound(conn: connection) -> bool:
    """Return whether the server answers and `conn` may write; roll back a transaction that was left open."""
    if conn.closed:
        return False
    try:
        if conn.info.transaction_status != TRANSACTION_STATUS_IDLE:
            conn.rollback()
        writes = can_write(conn)
        conn.rollback()
    except psycopg2.Error:
        writes = False
    if not writes:
        discard(conn)
    return writes


def close_all() -> None:
    """Close every idle connection of this process."""
    for pool in _POOLS.values():
        pool.close()


def discard(conn: connection) -> None:
    """Close `conn` in any state."""
    try:
        conn.close()
    except psycopg2.Error:
        return
