"""Skips changes that a snapshot already includes, where the table has no key.

A re-snapshot runs in addition to the stream. Changes that were committed in between come again behind the
snapshot's rows.  With a key, applying them again has no effect. Without one, rows would be doubled. Such a
snapshot therefore carries a marker (services/cdc/change_detection/snapshot_marker.py), and changes that the
marker includes are skipped.
"""

from typing import Any, Final, NamedTuple

from psycopg2 import sql
from psycopg2.extensions import connection

from services.cdc.merge.history_sql import TableName
from services.cdc.merge.suspended import SuspendedError

_FIRST_MARKER: Final = """
    SELECT snapshot::text, lsn::text FROM onramp.source_resnapshots
    WHERE source = %s AND schema_name = %s AND table_name = %s AND start <= %s
    ORDER BY start DESC, id DESC LIMIT 1
"""
#: The first row of a snapshot without a marker: rows before the next request belong to one snapshot.
_UNTOLD: Final = sql.SQL("""
    WITH asked AS (
        SELECT start, lead(start, 1, %(stop)s) OVER (ORDER BY start, id) AS until,
            snapshot IS NULL AS is_unknown
        FROM onramp.source_resnapshots
        WHERE source = %(source)s AND schema_name = %(schema)s AND table_name = %(table)s
    )
    SELECT (SELECT _offset FROM {landing}
            WHERE _offset >= greatest(a.start, %(start)s) AND _offset < least(a.until, %(stop)s)
              AND change ->> 'op' = 'r' ORDER BY _offset LIMIT 1) AS at
    FROM asked a WHERE is_unknown ORDER BY at LIMIT 1
""")
#: A change has the lower half of its transaction's id: the upper half is the one that brings it nearest to
#: the snapshot's end.
_DROP: Final = """
    DELETE FROM pg_temp.onramp_batch b USING (
        SELECT %(snapshot)s::pg_snapshot AS snapshot,
            pg_snapshot_xmax(%(snapshot)s::pg_snapshot)::text::int8 AS xmax
    ) AS s
    WHERE b.at >= %(at)s AND b.op <> 'r' AND b.lsn < %(before)s::pg_lsn - '0/0'
      AND pg_visible_in_snapshot(
          greatest(s.xmax + ((b.xid - s.xmax) %% {all} + {all} + {half}) %% {all} - {half}, 0)::text::xid8,
          s.snapshot)
"""
_PAST: Final = """
    SELECT EXISTS (SELECT FROM pg_temp.onramp_batch WHERE op <> 'r' AND lsn >= %s::pg_lsn - '0/0')
"""
_IDS: Final = {"all": sql.Literal(1 << 32), "half": sql.Literal(1 << 31)}


class SnapshotVisibility(NamedTuple):
    """The pg_snapshot of a snapshot, as text, and a position in the log behind all of it."""

    snapshot: str
    before: str


def known_to(conn: connection, name: TableName, landing: sql.Identifier, start: int, stop: int) -> int:
    """Return the offset up to which all snapshots in `[start, stop)` have their marker."""
    bounds = {"source": name.source, "schema": name.schema, "table": name.table, "start": start, "stop": stop}
    with conn.cursor() as cursor:
        cursor.execute(_UNTOLD.format(landing=landing), bounds)
        (at,) = cursor.fetchone() or (None,)
    return stop if at is None else int(at)


def unknown(name: TableName) -> SuspendedError:
    """Return why a table is suspended whose snapshot has landed without its marker."""
    return SuspendedError(
        "it has no key and was re-snapshotted, and the snapshot's marker has not come yet: the agent reads "
        f"it within seconds of the last row; if not, onramp sources resync {name.source}"
    )


def pass_over(
    conn: connection, name: TableName, start: int, read_from: int | None, last: SnapshotVisibility | None
) -> SnapshotVisibility | None:
    """Drop staged changes that the snapshot before them includes; return its marker if more may follow.

    `read_from`: the start of the last snapshot in the stage, if any; `last`: the marker of earlier
    changes.
    """
    visibility = last if read_from is None else _of(conn, name, read_from)
    if visibility is None:
        return None
    with conn.cursor() as cursor:
        at = start if read_from is None else read_from
        bounds = {"snapshot": visibility.snapshot, "before": visibility.before, "at": at}
        cursor.execute(sql.SQL(_DROP).format(**_IDS), bounds)
    return None if _one(conn, _PAST, visibility.before) else visibility


def is_visibility_known(conn: connection, name: TableName, read_from: int) -> bool:
    """Return whether the snapshot whose first row is at `read_from` has its marker, or needs none."""
    visibility = _of(conn, name, read_from)
    return visibility is None or visibility.snapshot is not None


def _of(conn: connection, name: TableName, read_from: int) -> SnapshotVisibility | None:
    """Return the snapshot's marker; None for a first snapshot: the stream begins just behind it."""
    with conn.cursor() as cursor:
        cursor.execute(_FIRST_MARKER, (*name, read_from))
        asked = cursor.fetchone()
    return None if asked is None else SnapshotVisibility(*asked)


def _one(conn: connection, statement: str, *arguments: Any) -> Any:
    with conn.cursor() as cursor:
        cursor.execute(statement, arguments)
        (value,) = cursor.fetchone() or (None,)
    return value
