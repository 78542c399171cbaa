"""The control database: where what is parked is kept, in a schema of the admin service's own.

Owns psycopg2 for this room, with the files beside it.
"""

import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.resources import files
from typing import Final

import psycopg2
from psycopg2.extensions import connection

from shared.errors import DATABASE_UNAVAILABLE, DATABASE_UNFIT, InfrastructureError
from shared.migrations import Migrations

SCHEMA: Final = "onramp_admin"
_OPTIONS: Final = "-c search_path=pg_catalog,pg_temp -c timezone=UTC -c statement_timeout={statement_ms}"
_READ_MS: Final = 10_000
_CONNECT_SECONDS: Final = 5
_FILES: Final = files(__package__) / "sql"
_LOCK: Final = 7_203_155_011
_CURSOR_KEY_BYTES: Final = 32


def connect(dsn: str, *, statement_ms: int = _READ_MS) -> connection:
    """Open a connection.  Raises `InfrastructureError`."""
    with translated():
        return psycopg2.connect(
            dsn,
            client_encoding="UTF8",
            application_name="onramp-admin",
            connect_timeout=_CONNECT_SECONDS,
            keepalives_idle=30,
            options=_OPTIONS.format(statement_ms=statement_ms),
        )


@contextmanager
def transaction(dsn: str) -> Iterator[connection]:
    """Open a connection for one transaction.  Raises `InfrastructureError`."""
    with translated(), closing(connect(dsn)) as conn, conn:
        yield conn


@contextmanager
def translated() -> Iterator[None]:
    """Turn psycopg2's errors, whose words may hold values, into `InfrastructureError`."""
    try:
        yield
    except psycopg2.Error as e:
        state = e.pgcode or "none (it cannot be reached)"
        raise InfrastructureError(DATABASE_UNAVAILABLE, f"the control database: SQLSTATE {state}") from None


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
    """Return the key that signs cursors; the same for all copies of the service."""
    with conn.cursor() as cursor:
        cursor.execute("SELECT cursor_key FROM onramp_admin.installation")
        ((key,),) = cursor.fetchall()
        return bytes(key)
