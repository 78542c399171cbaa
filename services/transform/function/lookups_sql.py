"""Reads the table of a lookup as a snapshot, in one read-only transaction of the driver.

The functions never see the database: its rows are broadcast to the workers, so an unreachable
database makes lookups older, and no event fails.
"""

from collections.abc import Iterator
from functools import partial
from typing import Final

import psycopg2
from psycopg2 import sql

from services.transform.function.lookups import LookupTable, RepeatedKeyError, snapshot_of
from shared.errors import TRANSFORM_LOOKUP_UNREADABLE, InfrastructureError
from shared.postgres.answering import PATIENCE_SECONDS, answering
from shared.postgres.connect import connect, session
from shared.postgres.failures import failure
from shared.registry.transforms import Lookup

#: Postgres' functions take 100 arguments, so that json_build_object has room for 50 columns only.
_ROWS: Final = (
    "SELECT {key}::text, (SELECT row_to_json(columns)::text FROM (SELECT {columns}) AS columns) "
    "FROM {table} WHERE {key} IS NOT NULL LIMIT %s"
)
_AT_ONCE: Final = 5_000
_SETTINGS: Final = ("default_transaction_read_only=on", "lock_timeout=2s", "statement_timeout=60s")


def read_lookup(name: str, lookup: Lookup, dsn: str) -> LookupTable:
    """Return a snapshot of the lookup's table.

    Raise `InfrastructureError` (`transform_lookup_unreadable`): the table cannot be read, has more rows than
    `max_rows`, or has a key twice; or its server does not answer.  Costs about a second for a million
    rows, and their size in memory.
    """
    open_ = partial(connect, dsn, name="onramp-lookup", options=session(_SETTINGS))
    try:
        with (
            answering(f"database {lookup.database}", dsn, open_, PATIENCE_SECONDS) as conn,
            conn,
            conn.cursor(name="onramp_lookup") as cursor,
        ):
            cursor.itersize = _AT_ONCE
            cursor.execute(_query(lookup), (lookup.max_rows + 1,))
            return snapshot_of(name, _bounded(name, cursor, lookup.max_rows))
    except RepeatedKeyError:
        raise _unreadable(name, f"two rows of {lookup.table} have the same {lookup.key}") from None
    except psycopg2.Error as e:
        raise _unreadable(name, failure(f"table {lookup.table} of {lookup.database}", e)) from None
    except InfrastructureError as e:
        raise e if e.fault is TRANSFORM_LOOKUP_UNREADABLE else _unreadable(name, e.detail) from None


def _query(lookup: Lookup) -> sql.Composed:
    return sql.SQL(_ROWS).format(
        key=sql.Identifier(lookup.key),
        columns=sql.SQL(", ").join(map(sql.Identifier, lookup.columns)),
        table=sql.Identifier(*lookup.table.split(".")),
    )


def _bounded(name: str, rows: Iterator[tuple[str, str]], most: int) -> Iterator[tuple[str, str]]:
    for count, row in enumerate(rows, 1):
        if count > most:
            raise _unreadable(name, f"its table has more than {most:,} rows (max_rows)")
        yield row


def _unreadable(name: str, reason: str) -> InfrastructureError:
    return InfrastructureError(TRANSFORM_LOOKUP_UNREADABLE, f"lookup {name}: {reason}")
