"""The stage: a temporary table of text columns, and each row's place, which INSERT reads from.

A row of it must fit a page, and as text it needs more room than in the table that it goes to:
700 numbers of thirteen digits do not fit.  So a wide stage is in parts, behind a view of them all.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from psycopg2 import sql
from psycopg2.extensions import connection

from services.writer.persist.copy import copy_into

#: The stage's own column: a row's place among the rows.
PLACE: Final = "n"
#: So many columns fit a page whatever they hold: what is long is stored elsewhere, by a short pointer.
_MOST_COLUMNS: Final = 250
_PART: Final = """
    CREATE TEMPORARY TABLE IF NOT EXISTS {part} ({columns}) ON COMMIT DELETE ROWS;
    TRUNCATE pg_temp.{part}
"""
_WHOLE: Final = "CREATE OR REPLACE TEMPORARY VIEW {whole} AS SELECT * FROM {parts}"
_INDEX: Final = "CREATE UNIQUE INDEX IF NOT EXISTS {index} ON pg_temp.{part} (n)"


def name(width: int) -> sql.Identifier:
    """The stage of so many columns, kept for the session: c0, c1, … and `PLACE`."""
    return sql.Identifier("pg_temp", f"onramp_stage_{width}")


def fill(conn: connection, rows: pa.Table) -> None:
    """Fill the stage anew with `rows`: the places first, then the columns."""
    width = rows.num_columns - 1
    for part, columns in _parts(width):
        texts = [sql.SQL("{} text").format(sql.Identifier(c)) for c in columns]
        listed = sql.SQL(", ").join([sql.SQL("n int4"), *texts])
        with conn.cursor() as cursor:
            cursor.execute(sql.SQL(_PART).format(part=sql.Identifier(part), columns=listed))
        copy_into(conn, sql.Identifier("pg_temp", part), rows.select([PLACE, *columns]))
    if width > _MOST_COLUMNS:
        _join(conn, width)


def index(conn: connection, width: int) -> None:
    """Make the rows of the stage quick to find by their places."""
    with conn.cursor() as cursor:
        for part, _ in _parts(width):
            statement = sql.SQL(_INDEX).format(
                index=sql.Identifier(f"{part}_{PLACE}"), part=sql.Identifier(part)
            )
            cursor.execute(statement)


def _join(conn: connection, width: int) -> None:
    first, *others = [sql.Identifier("pg_temp", part) for part, _ in _parts(width)]
    parts = sql.SQL("").join([first, *(sql.SQL(" JOIN {} USING (n)").format(part) for part in others)])
    whole = sql.Identifier(f"onramp_stage_{width}")
    with conn.cursor() as cursor:
        cursor.execute(sql.SQL(_WHOLE).format(whole=whole, parts=parts))


def _parts(width: int) -> Iterator[tuple[str, list[str]]]:
    """The tables of a stage and the columns of each."""
    columns = [f"c{i}" for i in range(width)]
    if width <= _MOST_COLUMNS:
        yield f"onramp_stage_{width}", columns
        return
    for at in range(0, width, _MOST_COLUMNS):
        yield f"onramp_stage_{width}_{at}", columns[at : at + _MOST_COLUMNS]
