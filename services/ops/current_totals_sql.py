"""The totals of one database at one time, cheap enough for every few seconds: no rows and no receipts.

The audit's snapshot reads all waiting, parked and replayed events as well.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import psycopg2
from psycopg2.extensions import connection

from services.ops.findings import Generation
from services.ops.operate.holds_sql import PATIENCE_SECONDS, Hold, holds_in
from services.ops.totals_sql import read_ledger, read_totals
from shared.errors import DATABASE_UNAVAILABLE, DATABASE_UNFIT, InfrastructureError
from shared.postgres.answering import PersistentConnection
from shared.postgres.connect import connect
from shared.postgres.failures import failure

_OPTIONS: Final = (
    "-c search_path=pg_catalog,pg_temp -c timezone=UTC -c lock_timeout=2000 -c statement_timeout=10000 "
    "-c default_transaction_isolation=repeatable\\ read -c default_transaction_read_only=on"
)
_OUTBOX: Final = "SELECT count(*) FROM onramp.outbox"


class DatabaseTotals(NamedTuple):
    """One transaction's view of a database."""

    #: The next offset of each partition.
    ledger: Mapping[Generation, int] = {}
    #: Events by (generation, schema.table, outcome); waiting events are among them.
    totals: Mapping[tuple[Generation, str, str], int] = {}
    #: Parked events that are not on onramp.user_errors yet.
    outbox: int = 0
    holds: Sequence[Hold] = ()


class TotalsReader:
    """Reads one database on a connection of its own, which stays open; for one thread at a time."""

    def __init__(self, database: str, dsn: str) -> None:
        self._database = database
        open_ = partial(connect, dsn, name="onramp-figures", options=_OPTIONS)
        self._connection = PersistentConnection(f"database {database}", dsn, open_, PATIENCE_SECONDS)

    def read(self) -> DatabaseTotals:
        """Return the totals.

        Raises `InfrastructureError`, also if the server does not answer for `PATIENCE_SECONDS`.
        """
        try:
            with self._connection.used() as conn, conn:
                return _read(conn, self._database)
        except InfrastructureError as e:
            if e.fault is not DATABASE_UNFIT:  # the others name the database
                raise
            raise InfrastructureError(e.fault, f"database {self._database}: {e.detail}") from None
        except psycopg2.Error as e:
            self._connection.close()
            detail = failure(f"database {self._database}", e)
            raise InfrastructureError(DATABASE_UNAVAILABLE, detail) from None

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _read(conn: connection, database: str) -> DatabaseTotals:
    with conn.cursor() as cursor:
        ledger, totals = read_ledger(cursor), read_totals(cursor)
        cursor.execute(_OUTBOX)
        ((outbox,),) = cursor.fetchall()
    return DatabaseTotals(ledger, totals, outbox, holds_in(conn, database))
