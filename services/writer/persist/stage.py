"""The stage: a temporary table of text columns and the row index, from which rows are inserted.

A row must fit a page of 8 kB, and text needs more space than the values of the target table: 700 numbers
of thirteen digits do not fit.  So a wide stage consists of parts that a view joins.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from psycopg2 import sql
from psycopg2.extensions import connection

from services.writer.persist.copy import copy_into

#: The stage's own column: the index of a row among the staged rows.
ROW_INDEX: Final = "n"
#: Maximum columns that fit a page with any content: long values are stored out of line (TOAST).
_MAX_COLUMNS: Final = 250
_PART: Final = """
    CREATE TEMPORARY TABLE IF NOT EXISTS {part} ({columns}) ON COMMIT DELETE ROWS;
    TRUNCATE pg_temp.{part}
"""
_WHOLE: Final = "CREATE OR REPLACE TEMPORARY VIEW {whole} AS SELECT * FROM {parts}"
_INDEX: Final = "CREATE UNIQUE INDEX IF NOT EXISTS {index} ON pg_temp.{part} (n)"


def name(width: int) -> sql.Identifier:
    """Return the name of the session's stage with `width` columns (c0, c1, …) and `ROW_INDEX`."""
    return sql.Identifier("pg_temp", f"onramp_stage_{width}")


def fill(conn: connection, rows: pa.Table) -> None:
    """Empty the stage and COPY `rows` into it: `ROW_INDEX` first, then c0, c1, …."""
    width = rows.num_columns - 1
    for part, columns in _parts(width):
        texts = [sql.SQL("{} text").format(sql.Identifier(c)) for c in columns]
        listed = sql.SQL(", ").join([sql.SQL("n int4"), *texts])
        with conn.cursor() as cursor:
            cursor.execute(sql.SQL(_PART).format(part=sql.Identifier(part), columns=listed))
        copy_into(conn, sql.Identifier("pg_temp", part), rows.select([ROW_INDEX, *columns]))
    if width > _MAX_COLUMNS:
        _join(conn, width)


def index(conn: connection, width: int) -> None:
    """Index the stage by row index."""
    with conn.cursor() as cursor:
        for part, _ in _parts(width):
            statement = sql.SQL(_INDEX).format(
                index=sql.Identifier(f"{part}_{ROW_INDEX}"), part=sql.Identifier(part)
            )
            cursor.execute(statement)


def _join(conn: connection, width: int) -> None:
    first, *others = [sql.Identifier("pg_temp", part) for part, _ in _parts(width)]
    parts = sql.SQL("").join([first, *(sql.SQL(" JOIN {} USING (n)").format(part) for part in others)])
    whole = sql.Identifier(f"onramp_stage_{width}")
    with conn.cursor() as cursor:
        cursor.execute(sql.SQL(_WHOLE).format(whole=whole, parts=parts))


def _parts(width: int) -> Iterator[tuple[str, list[str]]]:
    """Yield the tables of a stage, and the columns of each."""
    columns = [f"c{i}" for i in range(width)]
    if width <= _MAX_COLUMNS:
        yield f"onramp_stage_{width}", columns
        return
    for first in range(0, width, _MAX_COLUMNS):
        yield f"onramp_stage_{width}_{first}", columns[first : first + _MAX_COLUMNS]
