"""Connections of the audit: a database that stops answering fails its own reads, with its name.

Several databases are open at once, so an error has to be attributed to the one that caused it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

import psycopg2
from psycopg2.extensions import TRANSACTION_STATUS_INERROR, connection

from shared.errors import DATABASE_UNAVAILABLE, InfrastructureError
from shared.postgres.answering import SilentServerError, answering
from shared.postgres.connect import connect
from shared.postgres.failures import failure

#: Seconds without a sign of life from a server, after which the audit continues without its databases.
PATIENCE_SECONDS: Final = 10.0
_OPTIONS: Final = "-c search_path=pg_catalog,pg_temp -c timezone=UTC"


class UnreachableDatabaseError(InfrastructureError):
    """A database cannot be reached, or stopped answering; `database` is its name."""

    database = ""


@contextmanager
def opened(database: str, what: str, dsn: str, address: str) -> Iterator[connection]:
    """Lend a read-only transaction at REPEATABLE READ to the block.

    `what`: the database in messages; `address`: where its DSN comes from, for a message.

    Raises:
        UnreachableDatabaseError: the server cannot be reached, ended the session, or was silent.
        InfrastructureError: the database does not exist, or is unfit.
        psycopg2.Error: a statement failed.
    """
    try:
        with answering(what, dsn, partial(_open, database, what, dsn, address), PATIENCE_SECONDS) as conn:
            conn.set_session(isolation_level="REPEATABLE READ", readonly=True)
            try:
                yield conn
            except psycopg2.Error:
                if not conn.closed:
                    raise
                raise _unreachable(database, f"{what}: the session was ended while it was read") from None
    except SilentServerError as e:
        if e.server != what:
            raise
        raise _unreachable(database, e.detail) from None


def has_failed(conn: connection) -> bool:
    """Return whether a statement of this open connection failed, and not one of another connection."""
    return not conn.closed and conn.info.transaction_status == TRANSACTION_STATUS_INERROR


def _open(database: str, what: str, dsn: str, address: str) -> connection:
    try:
        return connect(dsn, name="onramp-audit", options=_OPTIONS)
    except psycopg2.Error as e:
        if e.pgcode:
            raise InfrastructureError(DATABASE_UNAVAILABLE, failure(what, e)) from None
        detail = f"{what} cannot be reached: no server answers at {address}, or the connection was refused"
        raise _unreachable(database, detail) from None


def _unreachable(database: str, detail: str) -> UnreachableDatabaseError:
    error = UnreachableDatabaseError(DATABASE_UNAVAILABLE, detail)
    error.database = database
    return error
