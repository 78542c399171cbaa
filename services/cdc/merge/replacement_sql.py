"""Replacements of a public table's rows: by a snapshot, by a resync or rebuild, or after a DROP.

Old rows are deleted in the transaction that inserts their replacement.  A snapshot is therefore merged once
its last row has landed, and the table keeps its rows until then.  An empty table has no rows to keep: a first
snapshot fills it in several transactions.
"""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from psycopg2 import sql
from psycopg2.extensions import connection

from services.cdc.merge import snapshot_visibility_sql, stage_sql
from services.cdc.merge.public_table import PublicTable
from services.cdc.merge.state_sql import Position

_IS_END: Final = "change ->> 'op' = 'r' AND change #>> '{{source,snapshot}}' LIKE 'last%%'"
_END: Final = sql.SQL(f"""
    SELECT _offset + 1 FROM {{landing}} WHERE _offset >= %s AND _offset < %s AND {_IS_END}
    ORDER BY _offset LIMIT 1
""")  # noqa: S608 - our own words
_HAS_ROWS: Final = sql.SQL("SELECT EXISTS (SELECT FROM {})")


@dataclass(frozen=True, kw_only=True)
class Landed:
    """The changes of a table that have landed and may be merged: from its position up to `stop`."""

    landing: sql.Identifier
    topic_id: str
    table: PublicTable
    position: Position
    stop: int
    dropped_at: tuple[int, ...]

    @property
    def start(self) -> int:
        """Return the offset of the first of them."""
        return self.position.next_offset

    @property
    def pending_drop(self) -> int | None:
        """Return the LSN of the table's last DROP if its rows are still from before it."""
        return self.dropped_at[-1] if self.position.drops < len(self.dropped_at) else None

    def stage(self, conn: connection, stop: int) -> int:
        """Stage the changes up to `stop`; return their number."""
        return stage_sql.fill(conn, self.landing, self.table.key, self.start, stop)


@dataclass
class EndSearch:
    """Searches landing for the last row of a snapshot that a table waits for, each landed change once."""

    #: The topic and offset where the table waits.
    waits_at: tuple[str, int] | None = None
    _reached: int = 0

    def find(self, conn: connection, landed: Landed, waits_at: int, since: int = 0) -> int | None:
        """Return the offset behind the first last row of a snapshot from `since`, or `waits_at`, on."""
        place, since = (landed.topic_id, waits_at), max(since, waits_at)
        if self.waits_at != place:
            self.waits_at, self._reached = place, since
        found = _one(conn, _END.format(landing=landed.landing), max(self._reached, since), landed.stop)
        # The merge of these changes may fail and be tried again.
        self._reached = max(self._reached, landed.stop) if found is None else int(found) - 1
        return None if found is None else int(found)


class Batch(NamedTuple):
    """The staged changes, which end at `stop`; the table is emptied at `begins_at`, if that is set."""

    staged: int
    stop: int
    drops: int
    clear_at: int | None
    read_from: int | None = None
    begins_at: int | None = None
    #: Whether the changes that follow wait for the rest of a snapshot.
    is_waiting: bool = False


def next_batch(conn: connection, landed: Landed, max_changes: int, search: EndSearch) -> Batch | None:
    """Stage the next changes, at most `max_changes` unless they replace rows; None while the table waits."""
    start, position = landed.start, landed.position
    is_due, end = position.is_clear_due(landed.stop), None
    if search.waits_at == (landed.topic_id, start) and not is_due:
        end = search.find(conn, landed, start)
        if end is None:
            return None
    stop = max(stage_sql.end(conn, landed.landing, start, landed.stop, max_changes), end or 0)
    if is_due and has_rows(conn, landed.table):
        stop = max(stop, position.replaced_until)
    while True:
        batch = _planned(conn, landed, stop, landed.stage(conn, stop))
        if not batch.is_waiting:
            return batch
        end = search.find(conn, landed, batch.stop, stop)
        if end is None:
            return batch if batch.stop > start else None
        stop = end


def last_replacement(conn: connection, landed: Landed) -> Batch | None:
    """Stage all changes up to the end of the last replacement of the table's rows; None without one."""
    position, is_due = landed.position, landed.position.is_clear_due(landed.stop)
    if not is_due and _one(conn, _END.format(landing=landed.landing), landed.start, landed.stop) is None:
        return None
    landed.stage(conn, landed.stop)
    clear = position.clear_at if is_due else None
    first, end, _ = _last_whole(conn, landed, landed.stop)
    if end is None or (clear is not None and (first or 0) < clear):
        first, end = None, position.replaced_until
    begins_at = clear if first is None else first
    if begins_at is None:
        return None
    is_cleared = position.clear_at is not None and position.clear_at <= begins_at
    return Batch(
        staged=stage_sql.cut_from(conn, end),
        stop=end,
        drops=len(landed.dropped_at),
        clear_at=None if is_cleared else position.clear_at,
        read_from=first,
        begins_at=max(begins_at, landed.start),
    )


def has_rows(conn: connection, table: PublicTable) -> bool:
    """Return whether the existing public table has a row."""
    return bool(_one(conn, _HAS_ROWS.format(table.identifier)))


def _planned(conn: connection, landed: Landed, stop: int, staged: int) -> Batch:
    """Return the batch: where the table is emptied, and where the stage ends (`stop` or before)."""
    position, drop = landed.position, landed.pending_drop
    clear = position.clear_at if position.clear_at is not None and position.clear_at <= stop else None
    first = stage_sql.last_snapshot(conn, landed.landing, landed.start)
    behind_drop = None if drop is None else stage_sql.first_after(conn, drop)
    if (first, clear, behind_drop) == (None, None, None):
        return Batch(staged, stop, position.drops, position.clear_at)
    if not has_rows(conn, landed.table):
        begins_at = _last(first, clear, behind_drop)
        remaining = position.clear_at if clear is None else None
        return Batch(staged, stop, len(landed.dropped_at), remaining, first, begins_at)
    return _replaced(conn, landed, stop, clear, behind_drop)


def _replaced(
    conn: connection, landed: Landed, stop: int, clear: int | None, behind_drop: int | None
) -> Batch:
    """Return as `_planned` does, for a table with rows: the stage ends before a partial replacement."""
    position = landed.position
    first, _, until = _last_whole(conn, landed, stop)
    if clear is not None and clear > until:
        clear = None
    is_blocked = False
    if clear is not None and not position.is_clear_due(landed.stop) and (first is None or first < clear):
        until, clear, is_blocked = clear, None, True
        stage_sql.cut_from(conn, until)
    is_replaced = first is not None or clear is not None
    if behind_drop is not None and behind_drop < until and not is_replaced:
        until = behind_drop  # the agent requests a re-snapshot: the rows are those of the table before
    return Batch(
        staged=stage_sql.cut_from(conn, until),
        stop=until,
        drops=len(landed.dropped_at) if is_replaced else position.drops,
        clear_at=position.clear_at if clear is None else None,
        read_from=first,
        begins_at=_last(first, clear),
        is_waiting=is_blocked or until < stop,
    )


def _last_whole(conn: connection, landed: Landed, stop: int) -> tuple[int | None, int | None, int]:
    """Return the start and end of the last whole snapshot, and the end of the stage: before partial ones."""
    while (first := stage_sql.last_snapshot(conn, landed.landing, landed.start)) is not None:
        end = _snapshots_end(conn, landed, first)
        if end is not None and (
            landed.table.key or snapshot_visibility_sql.is_visibility_known(conn, landed.table.source, first)
        ):
            return first, end, stop
        stop = first
        stage_sql.cut_from(conn, stop)
    return None, None, stop


def _snapshots_end(conn: connection, landed: Landed, first: int) -> int | None:
    """Return the offset behind the staged snapshot that begins at `first`; None without its last row.

    In a source's first snapshot a table can lack a last row: the agent stores where that snapshot ended.
    """
    if (end := stage_sql.snapshots_end(conn, first)) is not None:
        return int(end)
    position = landed.position
    if position.is_clear_due(landed.stop) and (position.clear_at or 0) <= first < position.replaced_until:
        return position.replaced_until
    return None


def _last(*places: int | None) -> int | None:
    return max((place for place in places if place is not None), default=None)


def _one(conn: connection, statement: sql.Composable, *arguments: Any) -> Any:
    with conn.cursor() as cursor:
        cursor.execute(statement, arguments or None)
        (value,) = cursor.fetchone() or (None,)
    return value
