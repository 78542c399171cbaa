"""Stages the changes of one merge: without repeats, and with the last offset where the table is emptied.

The order is the topic's offset, never the LSN. The first change after a snapshot can have the snapshot's LSN,
and a transaction that was open then comes later with a lower one.  The identity of a change is
`(source.sequence[0], transaction.total_order)`: the position of the commit before its transaction, and its
number in the transaction.  A connector that was killed sends changes again, later on the topic, with the same
identities.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from psycopg2 import sql
from psycopg2.extensions import connection

from services.cdc.merge import placeholders

#: The tables are empty unless the transaction has merged before: TRUNCATE would create files anew.
_STAGE: Final = """
    CREATE TEMPORARY TABLE IF NOT EXISTS onramp_batch (
        at int8, op text, key jsonb, before jsonb, after jsonb, toast bool, snapshot text,
        lsn int8, ms int8, commit numeric, ord int8, xid int8) ON COMMIT DELETE ROWS;
    CREATE TEMPORARY TABLE IF NOT EXISTS onramp_fold (
        key jsonb, gone bool, row jsonb, keeps bool, based bool, lsn int8, ms int8) ON COMMIT DELETE ROWS;
    DELETE FROM pg_temp.onramp_batch;
    DELETE FROM pg_temp.onramp_fold
"""
_COMMIT: Final = "coalesce(((change #>> '{source,sequence}')::jsonb ->> 0)::numeric, 0)"
_ORDER: Final = "(change #>> '{transaction,total_order}')::int8"
_XID: Final = "(change #>> '{source,txId}')::int8"
_FILL: Final = sql.SQL("""
    INSERT INTO pg_temp.onramp_batch
    SELECT _offset, op, CASE WHEN op <> 't' THEN {key} END, before, after,
           op IN ('c', 'u') AND after::text LIKE ANY ({signs}),
           change #>> '{{source,snapshot}}', (change #>> '{{source,lsn}}')::int8,
           (change #>> '{{source,ts_ms}}')::int8, {commit}, {order}, {xid}
    FROM (SELECT *, change ->> 'op' AS op, nullif(change -> 'before', 'null') AS before,
                 nullif(change -> 'after', 'null') AS after
          FROM {landing} WHERE _offset >= {start} AND _offset < {stop} OFFSET 0) AS changes
""")
#: Where the whole old row is known, it has the value that was left unchanged.
_FROM_BEFORE: Final = sql.SQL("""
    UPDATE pg_temp.onramp_batch SET after = filled.after,
        toast = filled.after::text LIKE ANY ({signs})
    FROM (SELECT b.at, jsonb_object_agg(a.key, CASE
              WHEN a.value = ANY ({all}) AND b.before ? a.key
              THEN b.before -> a.key ELSE a.value END) AS after
          FROM pg_temp.onramp_batch b, jsonb_each(b.after) a
          WHERE b.toast AND b.op = 'u' AND b.before IS NOT NULL GROUP BY 1) AS filled
    WHERE onramp_batch.at = filled.at
""").format(signs=placeholders.SIGNS, all=placeholders.ALL)
_IS_LEFT_OUT: Final = "SELECT EXISTS (SELECT FROM pg_temp.onramp_batch WHERE toast)"
_EXACT: Final = sql.SQL("""
    UPDATE pg_temp.onramp_batch SET toast = false
    WHERE toast AND NOT EXISTS (SELECT FROM jsonb_each(after) a WHERE a.value = ANY ({all}))
""").format(all=placeholders.ALL)
_REPEATS_HERE: Final = """
    DELETE FROM pg_temp.onramp_batch b USING (
        SELECT at, row_number() OVER (PARTITION BY at >= %s, commit, ord ORDER BY at) AS n
        FROM pg_temp.onramp_batch WHERE ord IS NOT NULL) AS numbered
    WHERE b.at = numbered.at AND numbered.n > 1
"""
_SUSPECTS: Final = """
    SELECT count(*) FROM pg_temp.onramp_batch
    WHERE ord IS NOT NULL AND (commit, ord) <= (%(commit)s, %(order)s) AND at < coalesce(%(until)s, at + 1)
"""
#: The changes before the batch, from `low` on, that are repeated in it.
_REPEATS: Final = sql.SQL("""
    DELETE FROM pg_temp.onramp_batch b USING (
        SELECT {commit} AS commit, {order} AS ord FROM {landing}
        WHERE _offset >= %(low)s AND _offset < %(high)s
    ) AS before
    WHERE b.commit = before.commit AND b.ord = before.ord AND (b.commit, b.ord) <= (%(commit)s, %(order)s)
      AND b.at < coalesce(%(until)s, b.at + 1)
""")
_BACK: Final = sql.SQL("""
    SELECT min(_offset) FROM (
        SELECT _offset FROM {landing}
        WHERE _offset < %s AND _offset >= %s ORDER BY _offset DESC LIMIT %s) AS steps
""")
_STEP: Final = 50_000
_END: Final = sql.SQL("""
    SELECT _offset FROM {landing} WHERE _offset >= %s AND _offset < %s ORDER BY _offset OFFSET %s LIMIT 1
""")
#: A snapshot's first row, or its last if it has one row: the row before it belongs to no snapshot, or to one
#: that was aborted.  All rows of a snapshot have the position of the log at which it began.
_STARTS: Final = sql.SQL("""
    SELECT max(at) FROM (
        SELECT at, op, snapshot, lag(op) OVER w AS op_before, lag(snapshot) OVER w AS snapshot_before,
               bool_or(op = 'r') OVER (PARTITION BY lsn ORDER BY at
                   ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS is_going_on
        FROM (SELECT at, op, snapshot, lsn FROM pg_temp.onramp_batch
              UNION ALL (SELECT _offset, change ->> 'op', change #>> '{{source,snapshot}}',
                                (change #>> '{{source,lsn}}')::int8
                         FROM {landing} WHERE _offset < %s ORDER BY _offset DESC LIMIT 1)) AS seen
        WHERE EXISTS (SELECT FROM pg_temp.onramp_batch WHERE op = 'r')
        WINDOW w AS (ORDER BY at)) AS told
    WHERE at >= %s AND op = 'r' AND (
        snapshot IN ('first', 'first_in_data_collection')
        OR snapshot IN ('last', 'last_in_data_collection') AND (
            op_before IS DISTINCT FROM 'r' OR snapshot_before IN ('last', 'last_in_data_collection')
            OR is_going_on IS NOT TRUE))
""")
_ENDS: Final = """
    SELECT min(at) + 1 FROM pg_temp.onramp_batch
    WHERE at >= %s AND op = 'r' AND snapshot IN ('last', 'last_in_data_collection')
"""
_TRUNCATED: Final = "SELECT max(at) + 1 FROM pg_temp.onramp_batch WHERE op = 't'"
_AFTER_DROP: Final = "SELECT min(at) FROM pg_temp.onramp_batch WHERE lsn > %s"
_CUT: Final = "DELETE FROM pg_temp.onramp_batch WHERE at < %s"
_CUT_FROM: Final = "DELETE FROM pg_temp.onramp_batch WHERE at >= %s"
_COUNT: Final = "SELECT count(*) FROM pg_temp.onramp_batch"
_MARK: Final = """
    SELECT commit, ord FROM pg_temp.onramp_batch
    WHERE ord IS NOT NULL AND at >= %s ORDER BY commit DESC, ord DESC LIMIT 1
"""
_UNKNOWN: Final = """
    SELECT DISTINCT name
    FROM pg_temp.onramp_batch, jsonb_object_keys(coalesce(after, before) - %s::text[]) AS name
    WHERE op <> 't' AND coalesce(after, before) - %s::text[] <> '{}' ORDER BY 1
"""
_ANALYZE_FROM: Final = 1_000


class Identity(NamedTuple):
    """The identity of a change."""

    commit: Any
    order: int


def end(conn: connection, landing: sql.Identifier, start: int, stop: int, max_changes: int) -> int:
    """Return the end of a merge that takes at most so many changes of `[start, stop)`."""
    following = _one(conn, _END.format(landing=landing), start, stop, max_changes)
    return stop if following is None else int(following)


def fill(conn: connection, landing: sql.Identifier, key: Sequence[str], start: int, stop: int) -> int:
    """Stage the changes of `[start, stop)`; `key`: columns of the table's key.  Returns their number."""
    columns = [
        sql.SQL("(CASE op WHEN 'd' THEN before ELSE after END) -> {}").format(sql.Literal(name))
        for name in key
    ]
    statement = _FILL.format(
        key=sql.SQL("jsonb_build_array({})").format(sql.SQL(", ").join(columns))
        if key
        else sql.SQL("NULL::jsonb"),
        landing=landing,
        signs=placeholders.SIGNS,
        commit=sql.SQL(_COMMIT),
        order=sql.SQL(_ORDER),
        # Only the merge of tables without a key reads this column.
        xid=sql.SQL("NULL::int8" if key else _XID),
        start=sql.Literal(start),
        stop=sql.Literal(stop),
    )
    with conn.cursor() as cursor:
        cursor.execute(_STAGE)
        cursor.execute(statement)
        staged = int(cursor.rowcount)
        if staged >= _ANALYZE_FROM:
            # Statistics only for columns in joins and conditions: rows are large, and no query searches by
            # their content.
            cursor.execute("ANALYZE pg_temp.onramp_batch (at, op, commit, ord)")
    return staged


def fill_from_before(conn: connection) -> None:
    """Take unchanged values from the whole old row, where the change has it."""
    if not _one(conn, sql.SQL(_IS_LEFT_OUT)):
        return
    with conn.cursor() as cursor:
        cursor.execute(_FROM_BEFORE)
        cursor.execute(_EXACT)


def unknown_columns(conn: connection, known: Iterable[str]) -> list[str]:
    """Return the columns of changes that the history (`known`) lacks."""
    with conn.cursor() as cursor:
        names = list(known)
        cursor.execute(_UNKNOWN, (names, names))
        return [name for (name,) in cursor.fetchall()]


def drop_repeats(
    conn: connection, landing: sql.Identifier, start: int, mark: Identity | None, log_begins_at: int | None
) -> int:
    """Drop changes that came before, in the stage or among those landed before `start`; return their number.

    `mark`: the greatest identity that was merged.  A change above it is new. Another change is searched
    in landing, backwards, because a source's first transactions after a snapshot may go back a little. At
    `log_begins_at` another log begins, whose identities may be those of other changes before.
    """
    log = log_begins_at or 0
    # With two logs in the stage, only changes of the first can be repeats; with one, those behind its start.
    until, since = (log_begins_at, 0) if start <= log else (None, log)
    with conn.cursor() as cursor:
        cursor.execute(_REPEATS_HERE, (log,))
        dropped = int(cursor.rowcount)
        if mark is None:
            return dropped
        merged = {"commit": mark.commit, "order": mark.order, "until": until}
        cursor.execute(_SUSPECTS, merged)
        high, (suspects,) = start, cursor.fetchone() or (0,)
        statement = _REPEATS.format(landing=landing, commit=sql.SQL(_COMMIT), order=sql.SQL(_ORDER))
        while suspects and (low := _one(conn, _BACK.format(landing=landing), high, since, _STEP)) is not None:
            cursor.execute(statement, {**merged, "low": low, "high": high})
            dropped += cursor.rowcount
            suspects -= cursor.rowcount
            high = low
    return dropped


def last_truncate(conn: connection) -> Any:
    """Return the offset behind the last TRUNCATE."""
    return _one(conn, sql.SQL(_TRUNCATED))


def last_snapshot(conn: connection, landing: sql.Identifier, start: int) -> Any:
    """Return the offset of the first row of the last snapshot that begins in the stage."""
    return _one(conn, _STARTS.format(landing=landing), start, start)


def snapshots_end(conn: connection, first: int) -> Any:
    """Return the offset behind the last row of the snapshot that begins at `first`, if it is staged."""
    return _one(conn, sql.SQL(_ENDS), first)


def first_after(conn: connection, lsn: int) -> Any:
    """Return the offset of the first change after this position of the log."""
    return _one(conn, sql.SQL(_AFTER_DROP), lsn)


def cut(conn: connection, start: int) -> None:
    """Drop staged changes before `start`, where the table is emptied."""
    with conn.cursor() as cursor:
        cursor.execute(_CUT, (start,))


def cut_from(conn: connection, end: int) -> int:
    """Drop staged changes from `end` on; return how many remain."""
    with conn.cursor() as cursor:
        cursor.execute(_CUT_FROM, (end,))
    return int(_one(conn, sql.SQL(_COUNT)))


def mark(conn: connection, start: int) -> Identity | None:
    """Return the greatest identity in the stage from `start` on."""
    with conn.cursor() as cursor:
        cursor.execute(_MARK, (start,))
        found = cursor.fetchone()
    return Identity(*found) if found else None


def _one(conn: connection, statement: sql.Composable, *arguments: Any) -> Any:
    with conn.cursor() as cursor:
        cursor.execute(statement, arguments)
        (value,) = cursor.fetchone() or (None,)
    return value
