"""Merges staged changes into a table without a key: all values identify a row (identity FULL).

Inserts and deletes are counted for each row as a whole; one delete removes one of several equal rows.
"""

from typing import Any, Final

from psycopg2 import sql
from psycopg2.extensions import connection

from services.cdc.merge.public_table import PublicTable
from services.cdc.merge.suspended import SuspendedError

_NO_OLD_ROW: Final = """
    SELECT min(at) FROM pg_temp.onramp_batch
    WHERE op IN ('u', 'd') AND before IS NULL OR op IN ('c', 'r', 'u') AND (after IS NULL OR toast)
"""
_COUNT: Final = sql.SQL("""
    CREATE TEMPORARY TABLE IF NOT EXISTS onramp_net
        (row jsonb, n int8, lsn int8, ms int8) ON COMMIT DELETE ROWS;
    TRUNCATE pg_temp.onramp_net;
    INSERT INTO pg_temp.onramp_net
    SELECT row, sum(n), max(lsn), max(ms) FROM (
        SELECT {after} AS row, 1 AS n, lsn, ms FROM pg_temp.onramp_batch
        WHERE op IN ('c', 'r', 'u') AND {where_after}
        UNION ALL
        SELECT {before}, -1, lsn, ms FROM pg_temp.onramp_batch
        WHERE op IN ('u', 'd') AND {where_before}
    ) AS counted GROUP BY 1 HAVING sum(n) <> 0
""")
_LEAVING: Final = "SELECT coalesce(-sum(n), 0)::int8 FROM pg_temp.onramp_net WHERE n < 0"
_DELETE: Final = sql.SQL("""
    DELETE FROM {table} WHERE ctid = ANY (ARRAY(
        SELECT p.at FROM (
            SELECT ctid AS at, {whole} AS whole, row_number() OVER (PARTITION BY {whole}) AS nth
            FROM {table} p
        ) AS p JOIN (
            SELECT {made} AS whole, sum(-n) AS n FROM pg_temp.onramp_net f WHERE n < 0 GROUP BY 1
        ) AS leaving ON leaving.whole = p.whole AND p.nth <= leaving.n))
""")
_INSERT: Final = sql.SQL("""
    INSERT INTO {table} ({columns})
    SELECT {values} FROM pg_temp.onramp_net f, generate_series(1, f.n) WHERE f.n > 0
""")


def merge(conn: connection, table: PublicTable) -> None:
    """Apply the staged changes.  Raises `SuspendedError` or psycopg2's error."""
    if (at := _one(conn, _NO_OLD_ROW)) is not None:
        raise SuspendedError(
            f"the change at offset {at} does not have the whole row, and the table has no key: run ALTER "
            "TABLE … REPLICA IDENTITY FULL at the source, or give it a key, then onramp sources resync "
            f"{table.name}"
        )
    with conn.cursor() as cursor:
        cursor.execute(
            _COUNT.format(
                after=_row(table, "after"),
                before=_row(table, "before"),
                where_after=_where(table, "after"),
                where_before=_where(table, "before"),
            )
        )
        if leaving := _one(conn, _LEAVING):
            cursor.execute(_delete(table))
            if cursor.rowcount != leaving:
                raise SuspendedError(
                    f"{leaving} rows are deleted, and the public table has {cursor.rowcount} of them: "
                    f"a person changed it; onramp sources rebuild {table.source} rebuilds it"
                )
        cursor.execute(
            _INSERT.format(
                table=table.identifier,
                columns=sql.SQL(", ").join(map(sql.Identifier, table.values)),
                values=sql.SQL(", ").join(table.values.values()),
            )
        )


def _row(table: PublicTable, of: str) -> sql.Composable:
    """Return SQL for the row's published columns: a column that was added since makes no difference."""
    pairs = [
        sql.SQL("jsonb_build_object({0}, {1} -> {0})").format(sql.Literal(name), sql.Identifier(of))
        for name in table.columns
    ]
    return sql.SQL(" || ").join(pairs) if pairs else sql.SQL("'{}'::jsonb")


def _where(table: PublicTable, of: str) -> sql.Composable:
    if not table.cleaning.where:
        return sql.SQL("true")
    return sql.SQL("(SELECT {} FROM (SELECT {} AS after) AS cleaned) IS TRUE").format(
        sql.SQL(table.cleaning.where), sql.Identifier(of)
    )


def _delete(table: PublicTable) -> sql.Composed:
    made = [table.values[name] for name in table.columns]
    had = [sql.SQL("p.{}").format(sql.Identifier(name)) for name in table.columns]
    whole = sql.SQL("ROW({})::text")
    return _DELETE.format(
        table=table.identifier,
        whole=whole.format(sql.SQL(", ").join(had)),
        made=whole.format(sql.SQL(", ").join(made)),
    )


def _one(conn: connection, statement: str) -> Any:
    with conn.cursor() as cursor:
        cursor.execute(statement)
        (value,) = cursor.fetchone() or (None,)
    return value
