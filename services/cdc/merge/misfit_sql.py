"""Finds the value that does not fit its public column: its column and receipt, never the value itself.

Postgres names neither when a cast fails.  The changes are cast again, by halves.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import connection

from services.cdc.merge import placeholders
from services.cdc.merge.replacement_sql import Landed

_CAST: Final = sql.SQL("""
    SELECT count(ROW({values})::text) FROM (
        SELECT change -> 'after' AS row FROM {landing} WHERE _offset >= {start} AND _offset < {stop}
        UNION ALL SELECT change -> 'before' FROM {landing} WHERE _offset >= {start} AND _offset < {stop}
    ) AS f
""")
#: A value that an update omitted is not cast.
_VALUE: Final = sql.SQL("CASE WHEN f.row -> {name} = ANY ({all}) THEN NULL ELSE {value} END")
_TOPIC: Final = "SELECT topic FROM onramp.ledger WHERE topic_id = %s AND partition = 0"


class Place(NamedTuple):
    """A column and a receipt; an unknown one is empty."""

    column: str = ""
    receipt: str = ""


def find(conn: connection, landed: Landed) -> Place:
    """Return the location of the first value that cannot be cast."""
    columns, start, stop = list(landed.table.columns), landed.start, landed.stop
    if _fits(conn, landed, columns, start, stop):
        return Place()
    while stop - start > 1:
        middle = (start + stop) // 2
        if _fits(conn, landed, columns, start, middle):
            start = middle
        else:
            stop = middle
    column = next(name for name in columns if not _fits(conn, landed, [name], start, stop))
    with conn.cursor() as cursor:
        cursor.execute(_TOPIC, (landed.topic_id,))
        (topic,) = cursor.fetchone() or ("",)
    return Place(column, f"{topic} 0 {start}")


def _fits(conn: connection, landed: Landed, columns: Sequence[str], start: int, stop: int) -> bool:
    row = sql.SQL("f.row")
    values = [
        _VALUE.format(name=sql.Literal(name), all=placeholders.ALL, value=landed.table.value(name, row))
        for name in columns
    ]
    statement = _CAST.format(
        values=sql.SQL(", ").join(values),
        landing=landed.landing,
        start=sql.Literal(start),
        stop=sql.Literal(stop),
    )
    with conn.cursor() as cursor:
        cursor.execute("SAVEPOINT misfit")
        try:
            cursor.execute(statement)
        except psycopg2.DataError:
            cursor.execute("ROLLBACK TO SAVEPOINT misfit")
            return False
        cursor.execute("RELEASE SAVEPOINT misfit")
    return True
