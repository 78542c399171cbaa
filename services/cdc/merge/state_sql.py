"""`onramp.table_settings`: each table's merge position and why it is suspended; the writer's ledger."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import orjson
from psycopg2.extensions import connection
from psycopg2.extras import execute_values

from services.cdc.merge import stage_sql
from services.cdc.merge.history_sql import TableName
from services.cdc.merge.public_table_drift_sql import Shape
from services.cdc.merge.snapshot_visibility_sql import SnapshotVisibility
from services.cdc.merge.stage_sql import Identity
from shared import change_table

_ADD: Final = """
    INSERT INTO onramp.table_settings (source, schema_name, table_name, landing) VALUES %s
    ON CONFLICT (source, schema_name, table_name) DO UPDATE SET landing = excluded.landing
    WHERE table_settings.landing <> excluded.landing
"""
_TABLE_SETTINGS: Final = """
    SELECT source, schema_name, table_name, topic_id::text, next_offset,
           clear_at IS NOT NULL AND clear_after IS NOT NULL, parked_known, reason
    FROM onramp.table_settings
"""
#: The topics that feed each landing table today, with the number of their parked changes.
_FEEDS: Final = """
    SELECT t.destination, t.topic_id::text, l.next_offset,
           coalesce(sum(t.events) FILTER (WHERE t.outcome = 'parked'), 0)::int8
    FROM onramp.totals t JOIN onramp.ledger l ON l.topic_id = t.topic_id AND l.partition = t.partition
    WHERE t.destination LIKE %s AND NOT EXISTS (
        SELECT FROM onramp.table_settings m
        WHERE t.destination = 'landing.' || m.landing AND t.topic_id = ANY (m.past_topics))
    GROUP BY 1, 2, 3, t.partition
    HAVING bool_or(t.outcome IN ('landed', 'duplicate', 'parked'))
"""
_LOCK: Final = """
    SELECT next_offset, last_commit, last_order, clear_at, clear_after, log_begins_at, carried, drops,
           stored_shape, snapshot::text, snapshot_before::text
    FROM onramp.table_settings
    WHERE source = %s AND schema_name = %s AND table_name = %s FOR UPDATE SKIP LOCKED
"""
#: Both are read at one moment: a landed snapshot was requested after the DROP that is its reason.
_SETTLED: Final = """
    SELECT (SELECT next_offset FROM onramp.ledger WHERE topic_id = %s AND partition = 0),
           ARRAY(SELECT coalesce(lsn - '0/0', 0)::int8 FROM onramp.source_tables
                 WHERE source = %s AND schema_name = %s AND table_name = %s AND dropped ORDER BY 1)
"""
_WAITING: Final = """
    SELECT min("offset") FROM onramp.waiting
    WHERE destination = %s AND db_schema = %s AND topic_id = %s AND partition = 0
"""
_ADVANCE: Final = """
    UPDATE onramp.table_settings SET topic_id = coalesce(%s, topic_id), next_offset = %s, last_commit = %s,
        last_order = %s, carried = %s, drops = %s, snapshot = %s, snapshot_before = %s, clear_at = %s,
        awaits_snapshot = %s,
        changes = changes + %s, repeats = repeats + %s, merged_at = now(),
        suspended_since = NULL, reason = NULL
    WHERE source = %s AND schema_name = %s AND table_name = %s
"""
_WAIT: Final = """
    UPDATE onramp.table_settings SET awaits_snapshot = true
    WHERE source = %s AND schema_name = %s AND table_name = %s AND NOT awaits_snapshot
"""
_HOLD: Final = """
    UPDATE onramp.table_settings
    SET reason = %s, suspended_since = CASE WHEN reason IS NULL THEN now() ELSE suspended_since END
    WHERE source = %s AND schema_name = %s AND table_name = %s AND reason IS DISTINCT FROM %s
"""


class TableSettings(NamedTuple):
    """A table's settings at a poll: its position, topic and reason."""

    topic_id: str | None
    next_offset: int
    #: Whether a replacement of its rows is due, and its end is known.
    is_cleared: bool
    parked_known: int
    reason: str | None


class Feed(NamedTuple):
    """The topic generation that feeds a landing table: how far it is settled, and its parked changes."""

    topic_id: str
    next_offset: int
    parked: int


class Position(NamedTuple):
    """A table's position; its row is locked."""

    next_offset: int
    mark: Identity | None
    #: The offset where the table is emptied, if it is; the end of its replacement, if known; and the start of
    #: its last log, after a resync.
    clear_at: int | None
    clear_after: int | None
    log_begins_at: int | None
    carried: Mapping[str, Any] | None
    drops: int
    #: The public table's shape as the merger stored it.
    stored_shape: Shape | None = None
    #: The marker of the snapshot that the table consists of, while changes that it includes may follow.
    visibility: SnapshotVisibility | None = None

    @property
    def replaced_until(self) -> int:
        """Return the offset up to which changes replace the table's rows."""
        return max(self.clear_at or 0, self.clear_after or 0)

    def is_clear_due(self, stop: int) -> bool:
        """Return whether the table is emptied at `clear_at`, and its replacement is complete at `stop`."""
        is_known = self.clear_at is not None and self.clear_after is not None
        return is_known and self.replaced_until <= stop


class Advance(NamedTuple):
    """The new position after a merge."""

    topic_id: str | None
    next_offset: int
    mark: Identity | None
    carried: Mapping[str, Any] | None
    drops: int
    clear_at: int | None
    changes: int = 0
    repeats: int = 0
    visibility: SnapshotVisibility | None = None
    awaits_snapshot: bool = False


def add(conn: connection, names: Iterable[TableName]) -> None:
    """Insert the rows of tables that have none."""
    rows = [(*name, change_table.name_of(*name)) for name in sorted(names)]
    if rows:
        with conn.cursor() as cursor:
            execute_values(cursor, _ADD, rows, page_size=len(rows))


def read_table_settings(conn: connection) -> dict[TableName, TableSettings]:
    """Return the settings of all tables."""
    with conn.cursor() as cursor:
        cursor.execute(_TABLE_SETTINGS)
        return {TableName(*row[:3]): TableSettings(*row[3:]) for row in cursor.fetchall()}


def feeds(conn: connection) -> dict[str, list[Feed]]:
    """Return the feeds by landing table."""
    found: dict[str, list[Feed]] = {}
    with conn.cursor() as cursor:
        cursor.execute(_FEEDS, (f"{change_table.SCHEMA}.%",))
        for destination, *feed in cursor.fetchall():
            found.setdefault(destination.partition(".")[2], []).append(Feed(*feed))
    return found


def lock(conn: connection, name: TableName) -> Position | None:
    """Lock the table's row and return it; None when another session merges it."""
    with conn.cursor() as cursor:
        cursor.execute(_LOCK, name)
        row = cursor.fetchone()
    if row is None:
        return None
    next_offset, commit, order, clear_at, after, log_begins_at, carried, drops, made, visibility, before = row
    return Position(
        next_offset,
        None if commit is None else Identity(commit, order),
        clear_at,
        after,
        log_begins_at,
        carried,
        drops,
        None if made is None else Shape.of(made),
        None if visibility is None else SnapshotVisibility(visibility, before),
    )


def settled_to(conn: connection, name: TableName, landing: str, topic_id: str) -> tuple[int, tuple[int, ...]]:
    """Return the offset up to which all changes have landed (before any held change), and the table's DROPs.

    In this order: changes that stop waiting meanwhile have landed when landing is read.
    """
    with conn.cursor() as cursor:
        cursor.execute(_SETTLED, (topic_id, *name))
        next_offset, dropped_at = cursor.fetchone() or (None, [])
        cursor.execute(_WAITING, (f"{change_table.SCHEMA}.{landing}", change_table.SCHEMA, topic_id))
        (waiting,) = cursor.fetchone() or (None,)
    settled = int(next_offset or 0)
    return settled if waiting is None else min(settled, int(waiting)), tuple(dropped_at)


def mark(conn: connection, position: Position, stop: int) -> Identity | None:
    """Return the greatest identity that is merged with the stage, which ends at `stop`.

    A repeat after a snapshot may be of a change before it; only a resync starts another log.
    """
    start, log = position.next_offset, position.log_begins_at
    if log is not None and start <= log <= stop:
        return stage_sql.mark(conn, log)
    marks = (stage_sql.mark(conn, start), position.mark)
    return max((each for each in marks if each), default=None)


def advance(conn: connection, name: TableName, to: Advance) -> None:
    """Move the table's locked row, in the merge's own transaction."""
    commit, order = to.mark or (None, None)
    carried = None if to.carried is None else orjson.dumps(to.carried).decode()
    visibility = to.visibility or (None, None)
    moved = (to.topic_id, to.next_offset, commit, order, carried, to.drops, *visibility)
    with conn.cursor() as cursor:
        cursor.execute(_ADVANCE, (*moved, to.clear_at, to.awaits_snapshot, to.changes, to.repeats, *name))


def wait(conn: connection, name: TableName) -> None:
    """Store that the table's rows remain until the rest of a snapshot has landed."""
    with conn.cursor() as cursor:
        cursor.execute(_WAIT, name)


def hold(conn: connection, name: TableName, reason: str) -> bool:
    """Store the reason of a suspended table; return whether the reason is new."""
    with conn.cursor() as cursor:
        cursor.execute(_HOLD, (reason, *name, reason))
        return bool(cursor.rowcount)
