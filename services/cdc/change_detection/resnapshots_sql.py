"""Requested snapshots in the published database: their starts, their markers and their ends."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from psycopg2 import sql
from psycopg2.extensions import cursor
from psycopg2.extras import execute_values

from services.cdc.change_detection.snapshot_marker import Marker
from services.cdc.change_detection.topic_generation_sql import End, follow, has_landed, know
from shared import change_table

#: Each row is read once, in pages of this size.  A row that waited behind a lock is missed, and its table is
#: re-snapshotted twice.
_END: Final = sql.SQL("""
    SELECT coalesce(bool_or(change ->> 'op' = 'r'
               AND change #>> '{{source,snapshot}}' IN ('last', 'last_in_data_collection')), false),
           max(_offset)
    FROM (SELECT change, _offset FROM {} WHERE _offset >= %s ORDER BY _offset LIMIT 100000) AS changes
""")
_INSERT_REQUEST: Final = """
    INSERT INTO onramp.source_resnapshots (source, schema_name, table_name, start, token) VALUES %s
"""
#: When a signal was executed twice, the later snapshot's marker wins.
_SAVE_MARKER: Final = """
    UPDATE onramp.source_resnapshots SET snapshot = %s, lsn = %s, has_rows = %s
    WHERE source = %s AND token = %s AND (lsn IS NULL OR lsn < %s)
"""
_HAD_ROWS: Final = "SELECT has_rows FROM onramp.source_resnapshots WHERE source = %s AND token = %s"
#: Whether changes from `start` on have been trimmed from landing.
_IS_TRIMMED: Final = """
    SELECT coalesce(trimmed_to, 0) > %(start)s FROM onramp.table_settings
    WHERE source = %(source)s AND schema_name = %(schema)s AND table_name = %(table)s FOR UPDATE
"""
_EMPTY: Final = """
    UPDATE onramp.table_settings SET clear_at = %(start)s, clear_after = next_offset,
        next_offset = least(next_offset, %(start)s),
        begins_at = %(start)s, carried = NULL, reason = NULL, suspended_since = NULL,
        (snapshot, snapshot_before) = (
            SELECT min(snapshot::text)::pg_snapshot, min(lsn) FROM onramp.source_resnapshots
            WHERE source = %(source)s AND token = %(token)s)
    WHERE source = %(source)s AND schema_name = %(schema)s AND table_name = %(table)s
"""
_CLEAR: Final = """
    UPDATE onramp.table_settings SET clear_at = %(end)s, clear_after = NULL, begins_at = %(end)s,
        log_begins_at = %(end)s,
        snapshot = NULL, snapshot_before = NULL
    WHERE source = %(source)s AND schema_name = %(schema)s AND table_name = %(table)s
"""
_SNAPSHOT_ENDED: Final = """
    UPDATE onramp.table_settings SET clear_after = %s
    WHERE source = %s AND schema_name = %s AND table_name = %s
      AND clear_at IS NOT NULL AND clear_after IS NULL
"""
_FORGET: Final = "DELETE FROM onramp.source_resnapshots WHERE source = %s"


class RequestedSnapshot(NamedTuple):
    """A requested snapshot of a table; its rows begin at the offset `start` of the table's topic or later."""

    schema: str
    table: str
    start: int
    token: str


def has_end(cur: cursor, table: tuple[str, str, str], start: int) -> tuple[bool, int]:
    """Return whether a snapshot's last row landed from `start` on, and the next offset to search."""
    if not has_landed(cur, table):
        return False, start
    cur.execute(_END.format(sql.Identifier(change_table.SCHEMA, change_table.name_of(*table))), (start,))
    is_there, last = cur.fetchone() or (False, None)
    return bool(is_there), start if last is None else int(last) + 1


def insert_requests(cur: cursor, source: str, requests: Iterable[RequestedSnapshot]) -> None:
    """Store requests of snapshots that emit a marker."""
    execute_values(cur, _INSERT_REQUEST, [(source, *each) for each in requests])


def save_markers(cur: cursor, source: str, markers: Iterable[Marker]) -> None:
    """Store the markers of snapshots."""
    for token, snapshot, lsn, has_rows in markers:
        cur.execute(_SAVE_MARKER, (snapshot, lsn, has_rows, source, str(token), lsn))


def had_rows(cur: cursor, source: str, token: str) -> bool | None:
    """Return whether the snapshot of a token had rows; None until its marker is stored."""
    cur.execute(_HAD_ROWS, (source, token))
    (found,) = cur.fetchone() or (None,)
    return None if found is None else bool(found)


def empty(cur: cursor, source: str, table: tuple[str, str], start: int, token: str) -> bool:
    """Empty the public table at `start` of its topic, and rebuild it from the changes after it.

    With a `token`, changes that its snapshot includes are skipped.  Returns False when those changes have
    been trimmed from landing.
    """
    know(cur, (source, *table))
    names = {"source": source, "schema": table[0], "table": table[1], "start": start}
    cur.execute(_IS_TRIMMED, names)
    if cur.fetchone() == (True,):
        return False
    cur.execute(_EMPTY, {**names, "token": token or None})
    return True


def begin_again(cur: cursor, source: str, ends: Mapping[tuple[str, str], End]) -> None:
    """Empty public tables at `ends`, by table: a first snapshot follows.

    They keep their rows until that snapshot, or the note of its end, has landed.
    """
    for (schema, table), end in ends.items():
        know(cur, (source, schema, table))
        follow(cur, (source, schema, table), end)
        cur.execute(_CLEAR, {"source": source, "schema": schema, "table": table, "end": end.offset})
    forget(cur, source)


def note_snapshots_end(cur: cursor, source: str, ends: Mapping[tuple[str, str], End]) -> None:
    """Store the end of a first snapshot: its rows are on the topics up to `ends`, by table."""
    for table, end in ends.items():
        cur.execute(_SNAPSHOT_ENDED, (end.offset, source, *table))


def forget(cur: cursor, source: str) -> None:
    """Delete the requests: the source's next snapshot is a first one."""
    cur.execute(_FORGET, (source,))
