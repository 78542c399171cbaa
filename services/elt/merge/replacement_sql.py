"""What landed before a table was read again need not fit the table as it is now: it is passed over.

Nor need it be known what a snapshot has seen that was cut off, once another one has come.

A column whose type was changed by USING leaves changes and public rows that no cast takes; the agent has
the table read again, and from there on the table begins empty anyway.
"""

from typing import Final

from psycopg2 import sql
from psycopg2.extensions import connection

from services.elt.merge import made_sql, seen_sql, shape_sql, stage_sql, state_sql
from services.elt.merge.history_sql import SourceTable
from services.elt.merge.public_table import PublicTable
from services.elt.merge.state_sql import Advance, Position
from shared import change_table

_HAS_SNAPSHOT: Final = sql.SQL("""
    SELECT EXISTS (SELECT FROM {landing} WHERE _offset >= %s AND _offset < %s AND change ->> 'op' = 'r')
""")


def pass_over(conn: connection, source: SourceTable, table: PublicTable, topic_id: str) -> bool:
    """Go on where the table was last read again, with the table emptied and changed; whether there is such.

    In one transaction.  Raises `HeldError` where even an empty table cannot be changed.
    """
    with conn:
        position = state_sql.lock(conn, source.name)
        if position is None:
            return False
        settled = state_sql.settled_to(conn, change_table.name_of(*source.name), topic_id)
        at = _begins_at(conn, source, table, position, settled)
        now = made_sql.seen(conn, table)
        if at is None or (at == position.next_offset and shape_sql.is_whole(conn, table, position.made, now)):
            return False
        to = _advance(conn, source, topic_id, position, at)
        made_sql.empty(conn, table, now)
        shape_sql.change(conn, table, position.made, now)
        state_sql.advance(conn, source.name, to)
    return True


def _begins_at(
    conn: connection, source: SourceTable, table: PublicTable, position: Position, settled: int
) -> int | None:
    """Return where the table begins empty; all until `settled` is staged then.

    The last snapshot's first row, or where a resync or a rebuild has it begin: of a table without rows a
    snapshot says nothing.
    """
    start, cleared = position.next_offset, position.clear_at
    landing = sql.Identifier(change_table.SCHEMA, change_table.name_of(*source.name))
    with conn.cursor() as cursor:
        cursor.execute(_HAS_SNAPSHOT.format(landing=landing), (start, settled))
        has_snapshot = cursor.fetchone() == (True,)
    if not has_snapshot and (cleared is None or cleared > settled):
        return None
    stage_sql.fill(conn, landing, table.key, start, settled)
    snapshot = stage_sql.last_snapshot(conn, landing, start)
    if snapshot is not None and not table.key and not seen_sql.is_told(conn, source.name, snapshot):
        snapshot = None  # it may be cut off as well
    begins = (snapshot, cleared)
    return max((max(at, start) for at in begins if at is not None and at <= settled), default=None)


def _advance(conn: connection, source: SourceTable, topic_id: str, position: Position, at: int) -> Advance:
    """Return the position at the snapshot, as if what is before it had been merged."""
    skipped = stage_sql.cut_from(conn, at)
    drops, dropped_at = position.drops, source.dropped_at
    if drops < len(dropped_at) and stage_sql.first_after(conn, dropped_at[-1]) is not None:
        drops = len(dropped_at)
    return Advance(topic_id, at, state_sql.mark(conn, position, at), None, drops, skipped)
