"""Trims old landed changes, and replays a table's landing."""

import logging
from collections.abc import Callable
from typing import Final

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import connection, cursor

from services.cdc.merge.history_sql import TableName
from shared import change_table
from shared.postgres.connect import has_table

log = logging.getLogger(__name__)

#: Only merged changes, and never all of them: the next merge reads the row before it.
_TRIM: Final = sql.SQL("""
    WITH old AS (
        SELECT l.ctid FROM {landing} l JOIN onramp.table_settings m
          ON m.source = %s AND m.schema_name = %s AND m.table_name = %s AND l._offset < m.next_offset - 1
        WHERE (l.change ->> 'ts_ms')::int8 < extract(epoch FROM now() - %s * interval '1 second') * 1000
        ORDER BY l._offset LIMIT %s
    ), trimmed AS (DELETE FROM {landing} l USING old WHERE l.ctid = old.ctid RETURNING l._offset)
    UPDATE onramp.table_settings SET trimmed_to = greatest(trimmed_to, (SELECT max(_offset) + 1 FROM trimmed))
    WHERE source = %s AND schema_name = %s AND table_name = %s AND EXISTS (SELECT FROM trimmed)
    RETURNING (SELECT count(*) FROM trimmed)
""")
#: Transaction records, which are not merged.
_TRIM_ENDS: Final = sql.SQL("""
    WITH old AS (
        SELECT ctid FROM {landing}
        WHERE (change ->> 'ts_ms')::int8 < extract(epoch FROM now() - %s * interval '1 second') * 1000
        ORDER BY _offset LIMIT %s
    ) DELETE FROM {landing} l USING old WHERE l.ctid = old.ctid
""")
#: The maximum of rows in one transaction.
_AT_ONCE: Final = 50_000


def trim(conn: connection, name: TableName, seconds: int) -> int:
    """Delete merged changes that are older than `seconds`, step by step; return how many."""
    landing = sql.Identifier(change_table.SCHEMA, change_table.name_of(*name))

    def step(cursor: cursor) -> int:
        cursor.execute(_TRIM.format(landing=landing), (*name, seconds, _AT_ONCE, *name))
        (n,) = cursor.fetchone() or (0,)
        return int(n)

    return _step_by_step(conn, landing, step)


def trim_alone(conn: connection, name: TableName, seconds: int) -> None:
    """Trim a table's landing; an unexpected error of one table stops no other.  Raises psycopg2's error."""
    try:
        if n := trim(conn, name, seconds):
            log.info("trimming landed changes", extra={"table": str(name), "changes": n})
    except psycopg2.Error:
        raise
    except Exception:
        conn.rollback()
        log.exception("cannot trim the landed changes of a table", extra={"table": str(name)})


def trim_transactions(conn: connection, source: str, seconds: int) -> int:
    """Delete transaction records older than `seconds`; return how many."""
    landing = sql.Identifier(change_table.SCHEMA, change_table.transactions_of(source))

    def step(cursor: cursor) -> int:
        cursor.execute(_TRIM_ENDS.format(landing=landing), (seconds, _AT_ONCE))
        return int(cursor.rowcount)

    return _step_by_step(conn, landing, step)


def _step_by_step(conn: connection, landing: sql.Identifier, step: Callable[[cursor], int]) -> int:
    trimmed = 0
    with conn:
        if not has_table(conn, landing.as_string(conn)):
            return 0
    while True:
        with conn, conn.cursor() as stepping:
            n = step(stepping)
        trimmed += n
        if n < _AT_ONCE:
            return trimmed
