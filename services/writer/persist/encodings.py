"""Texts that a database cannot hold, because its encoding is not UTF8.

One such text would undo the COPY of all rows into the stage, so they are found before: the
server itself converts each text that is not plain ASCII, from bytes.  Asked only of
databases of another encoding, and there only on the way round by a stage.
"""

from typing import Final

import psycopg2
import pyarrow as pa
import pyarrow.compute as pc
from psycopg2 import sql
from psycopg2.extensions import connection

from services.writer.model.targets import Target
from services.writer.persist.copy import copy_into, savepoint

#: They hold all of UTF8: SQL_ASCII converts nothing.
_HOLD_ALL: Final = frozenset({"UTF8", "SQL_ASCII"})
_PREPARE: Final = """
    CREATE TEMPORARY TABLE IF NOT EXISTS onramp_bytes
        (n int4, field int4, value bytea) ON COMMIT DELETE ROWS;
    CREATE TEMPORARY TABLE IF NOT EXISTS onramp_unheld (n int4, field int4) ON COMMIT DELETE ROWS;
    TRUNCATE pg_temp.onramp_bytes, pg_temp.onramp_unheld
"""
_CONVERT: Final = """
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT * FROM pg_temp.onramp_bytes LOOP
        BEGIN
            PERFORM convert_from(one.value, 'UTF8');
        EXCEPTION WHEN untranslatable_character OR character_not_in_repertoire THEN
            INSERT INTO pg_temp.onramp_unheld VALUES (one.n, one.field);
        END;
    END LOOP;
END
$$
"""
_BYTES: Final = sql.Identifier("pg_temp", "onramp_bytes")


def unheld(conn: connection, columns: list[pa.ChunkedArray], places: pa.ChunkedArray) -> dict[int, int]:
    """The `places` whose text in one of `columns` the database cannot hold, and in which column."""
    if conn.info.parameter_status("server_encoding") in _HOLD_ALL:
        return {}
    with conn.cursor() as cursor:
        cursor.execute(_PREPARE)
        for at, column in enumerate(columns):
            _send(conn, at, column, places)
        cursor.execute(_CONVERT)
        cursor.execute("SELECT n, min(field) FROM pg_temp.onramp_unheld GROUP BY 1")
        return dict(cursor.fetchall())


def spelled(conn: connection, target: Target) -> Target:
    """`target`, by its escapes where the database cannot hold its names: there is no such table then."""
    if str(target).isascii() or conn.info.parameter_status("server_encoding") in _HOLD_ALL:
        return target
    try:
        with savepoint(conn), conn.cursor() as cursor:
            cursor.execute("SELECT %s", (str(target),))
    except psycopg2.DataError:
        return target._replace(schema=ascii(target.schema), table=ascii(target.table))
    return target


def _send(conn: connection, at: int, column: pa.ChunkedArray, places: pa.ChunkedArray) -> None:
    """COPY those of `column` that are not plain ASCII."""
    wide = pc.invert(pc.fill_null(pc.string_is_ascii(column), True))
    values = column.filter(wide).cast(pa.binary())
    if len(values):
        fields = pa.array([at] * len(values), pa.int32())
        copy_into(conn, _BYTES, pa.table([places.filter(wide), fields, values], ["n", "field", "value"]))
