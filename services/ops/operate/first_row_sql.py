"""One row of a table as Postgres' JSON, to show that events of a new type land."""

from typing import Final

import psycopg2
from psycopg2 import sql

from services.ops.operate.holds_sql import connected

_ROW: Final = "SELECT to_json(t)::text FROM {} t LIMIT 1"
#: The table does not exist, or may not be read.
_ABSENT: Final = frozenset({"42P01", "3F000", "42501"})


def first_row(database: str, dsn: str, schema: str, table: str) -> str | None:
    """Return a row; None without one.  Raises `InfrastructureError`."""
    with connected(database, dsn) as conn, conn.cursor() as cursor:
        try:
            cursor.execute(sql.SQL(_ROW).format(sql.Identifier(schema, table)))
        except psycopg2.Error as error:
            if error.pgcode not in _ABSENT:
                raise
            conn.rollback()
            return None
        found = cursor.fetchone()
        return None if found is None else str(found[0])
