"""Finds texts that a database cannot store, because its encoding is not UTF8.

One such text would abort the COPY of all rows into the stage, so these texts are found first: the server
converts each text that is not plain ASCII, from bytes.  Costs one COPY for each column with such texts
and two statements, only in databases with another encoding, and only if rows go through the stage.
"""

from typing import Final

import psycopg2
import pyarrow as pa
import pyarrow.compute as pc
from psycopg2 import sql
from psycopg2.extensions import connection

from services.writer.model.targets import Target
from services.writer.persist.copy import copy_into, savepoint

#: Encodings that store every character of UTF8; SQL_ASCII does not convert.
_STORE_ALL: Final = frozenset({"UTF8", "SQL_ASCII"})
_PREPARE: Final = """
    CREATE TEMPORARY TABLE IF NOT EXISTS onramp_bytes
        (n int4, field int4, value bytea) ON COMMIT DELETE ROWS;
    CREATE TEMPORARY TABLE IF NOT EXISTS onramp_unstorable (n int4, field int4) ON COMMIT DELETE ROWS;
    TRUNCATE pg_temp.onramp_bytes, pg_temp.onramp_unstorable
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
            INSERT INTO pg_temp.onramp_unstorable VALUES (one.n, one.field);
        END;
    END LOOP;
END
$$
"""
_BYTES: Final = sql.Identifier("pg_temp", "onramp_bytes")


def unstorable(
    conn: connection, columns: list[pa.ChunkedArray], row_indices: pa.ChunkedArray
) -> dict[int, int]:
    """Return the rows with a text that the database cannot store: row index to the column's index."""
    if conn.info.parameter_status("server_encoding") in _STORE_ALL:
        return {}
    with conn.cursor() as cursor:
        cursor.execute(_PREPARE)
        for i, column in enumerate(columns):
            _send(conn, i, column, row_indices)
        cursor.execute(_CONVERT)
        cursor.execute("SELECT n, min(field) FROM pg_temp.onramp_unstorable GROUP BY 1")
        return dict(cursor.fetchall())


def spelled(conn: connection, target: Target) -> Target:
    """Return `target`, with names that the database cannot store escaped: no such table can exist."""
    if str(target).isascii() or conn.info.parameter_status("server_encoding") in _STORE_ALL:
        return target
    try:
        with savepoint(conn), conn.cursor() as cursor:
            cursor.execute("SELECT %s", (str(target),))
    except psycopg2.DataError:
        schema = target.schema if target.schema.isascii() else ascii(target.schema)
        return target._replace(schema=schema, table=ascii(target.table))
    return target


def _send(conn: connection, column_index: int, column: pa.ChunkedArray, row_indices: pa.ChunkedArray) -> None:
    """COPY the texts of `column` that are not plain ASCII to the table for conversion."""
    wide = pc.invert(pc.fill_null(pc.string_is_ascii(column), True))
    values = column.filter(wide).cast(pa.binary())
    if len(values):
        fields = pa.array([column_index] * len(values), pa.int32())
        copy_into(conn, _BYTES, pa.table([row_indices.filter(wide), fields, values], ["n", "field", "value"]))
