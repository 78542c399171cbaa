"""Connections to Postgres: kept from batch to batch, one for each that works at a time.

Owns psycopg2 for the writer together with the modules that hold SQL.  A connection is
rolled back and checked before every use, and thrown away when it is not sound.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import psycopg2
from psycopg2.extensions import TRANSACTION_STATUS_IDLE, connection, parse_dsn

from services.writer.settings import WriterSettings
from services.writer.sqlstates import Verdict, verdict
from shared.errors import (
    DATA_REJECTED,
    DATABASE_UNAVAILABLE,
    NO_PERMISSION,
    InfrastructureError,
    OnrampError,
    UserError,
)

_NO_PERMISSION: Final = "42501"


@dataclass(frozen=True, slots=True)
class Database:
    """A configured database.  Messages select it by `name`, never by anything else."""

    name: str
    dsn: str = field(repr=False)
    options: str = ""
    dbname: str = ""


def configured(settings: WriterSettings) -> list[Database]:
    """The databases of `settings`, the default one first."""
    options = " ".join(
        f"-c {name}={value}"
        for name, value in {
            "search_path": "pg_catalog,pg_temp",
            "statement_timeout": settings.statement_timeout_ms,
            "lock_timeout": settings.lock_timeout_ms,
            "idle_in_transaction_session_timeout": settings.idle_in_transaction_ms,
            "timezone": "UTC",
        }.items()
    )
    dsns = {settings.database: settings.dsn} | settings.databases
    secrets = {name: dsn.get_secret_value() for name, dsn in dsns.items()}
    return [Database(name, dsn, options, parse_dsn(dsn).get("dbname", "")) for name, dsn in secrets.items()]


#: Connections that nobody uses now, by process, database and role.  A list's pop and append
#: are atomic, so two threads of the driver never hold the same connection.
_FREE: dict[tuple[int, str, str], list[connection]] = {}


@contextmanager
def connected(database: Database, role: str) -> Iterator[connection]:
    """A connection to `database` for `role` ("land", "ddl", "driver"), for the block alone.

    Raises `InfrastructureError` when the database cannot be reached.
    """
    free = _FREE.setdefault((os.getpid(), database.dsn, role), [])
    conn = _take(free) or _connect(database, role)
    try:
        yield conn
    finally:
        if not conn.closed:
            free.append(conn)


def _take(free: list[connection]) -> connection | None:
    while free:
        conn = free.pop()
        if _is_sound(conn):
            return conn
    return None


def _connect(database: Database, role: str) -> connection:
    try:
        conn = psycopg2.connect(
            database.dsn,
            options=database.options,
            application_name=f"onramp-writer {role}",
            connect_timeout=5,
            keepalives_idle=10,
            keepalives_interval=5,
            keepalives_count=3,
        )
    except psycopg2.Error as e:
        raise translate(e, database) from None
    conn.autocommit = role == "ddl"
    return conn


def _is_sound(conn: connection) -> bool:
    """Whether the server still answers on `conn`; ends a transaction that was left open."""
    if conn.closed:
        return False
    try:
        if conn.info.transaction_status != TRANSACTION_STATUS_IDLE:
            conn.rollback()
        with conn.cursor() as cursor:
            cursor.execute("SELECT 1")
        conn.rollback()
    except psycopg2.Error:
        discard(conn)
        return False
    return True


def close_all() -> None:
    """Close every connection that nobody uses now."""
    for free in _FREE.values():
        while free:
            discard(free.pop())


def discard(conn: connection) -> None:
    """Close `conn`, whatever state it is in."""
    try:
        conn.close()
    except psycopg2.Error:
        return


@contextmanager
def transaction(database: Database, role: str) -> Iterator[connection]:
    """A transaction that commits at the end of the block, or rolls back and raises `OnrampError`."""
    with connected(database, role) as conn:
        try:
            yield conn
            conn.commit()
        except psycopg2.Error as e:
            _roll_back(conn)
            raise translate(e, database) from None
        except BaseException:
            _roll_back(conn)
            raise


def _roll_back(conn: connection) -> None:
    try:
        conn.rollback()
    except psycopg2.Error:
        discard(conn)


def translate(error: psycopg2.Error, database: Database) -> OnrampError:
    """`error` in our words: no DETAIL and no values, which Postgres echoes there."""
    state = error.pgcode
    diag = getattr(error, "diag", None)
    place = ", ".join(
        f"{what} {name}"
        for what, name in (
            ("table", diag and diag.table_name),
            ("column", diag and diag.column_name),
            ("constraint", diag and diag.constraint_name),
        )
        if name
    )
    said = f"database {database.name}: SQLSTATE {state or 'none (connection lost or refused)'}"
    detail = f"{said}, {place}" if place else said
    if state == _NO_PERMISSION:
        return UserError(NO_PERMISSION, detail)
    if verdict(state) is Verdict.PARK:
        return UserError(DATA_REJECTED, detail)
    return InfrastructureError(DATABASE_UNAVAILABLE, detail)
