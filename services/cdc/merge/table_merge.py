"""The merger's flow for one table: landed changes are merged into the public table, in one transaction.

Invariant: the public table and `onramp.table_settings` move together or not at all. So a merge that is
interrupted or that runs twice has the same result as one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import connection

from services.cdc.merge import (
    merge_keyed_sql,
    merge_keyless_sql,
    misfit_sql,
    placeholders,
    public_table_drift_sql,
    replacement_sql,
    shape_sql,
    snapshot_visibility_sql,
    stage_sql,
    state_sql,
)
from services.cdc.merge.history_sql import SourceTable
from services.cdc.merge.public_table import PublicTable
from services.cdc.merge.public_table_drift_sql import Shape
from services.cdc.merge.replacement_sql import Batch, EndSearch, Landed
from services.cdc.merge.state_sql import Advance, Position
from services.cdc.merge.suspended import SuspendedError
from shared import change_table, failpoints

#: The maximum of changes in one transaction; a larger transaction of the source becomes visible in several.
#: Rows that replace others are one transaction, whatever their number.
MAX_CHANGES: Final = 100_000
_LAST: Final = """
    SELECT op, lsn, commit::text, ord, key::text, toast, at FROM pg_temp.onramp_batch ORDER BY at {} LIMIT 1
"""
_ROW: Final = sql.SQL("SELECT to_jsonb(p)::text FROM {table} p WHERE {same}")
_PUT_BACK: Final = sql.SQL("""
    INSERT INTO {table} SELECT (jsonb_populate_record(NULL::{table}, {row})).*;
    INSERT INTO pg_temp.onramp_batch (at, op, key, lsn, commit, ord, toast)
    VALUES ({at}, 'd', {key}, {lsn}, {commit}, {ord}, false)
""")
_DATA: Final = (psycopg2.DataError, psycopg2.IntegrityError)
#: The result of one transaction: how far it moves the table, and whether another one follows.
_Step = Callable[[connection, Position], tuple[Advance | None, bool]]


@dataclass(frozen=True, kw_only=True)
class Merge:
    """One table to merge: its history, its public table, and the topic that feeds it, if any."""

    source: SourceTable
    table: PublicTable
    topic_id: str | None
    max_changes: int = MAX_CHANGES
    search: EndSearch = field(default_factory=EndSearch)

    @property
    def landing(self) -> str:
        """Return the name of its landing table."""
        return change_table.name_of(*self.source.name)

    def run(self, conn: connection) -> bool:
        """Merge landed changes; return whether there are more.  Raises `SuspendedError` or psycopg2's error.

        A value that does not fit is skipped where the table's rows are replaced behind it.
        """
        try:
            return self._transaction(conn, self._next)
        except SuspendedError as e:
            conn.rollback()
            if isinstance(e, public_table_drift_sql.DamagedError):
                public_table_drift_sql.note(conn, self.source.name, str(e))
            if self.topic_id is not None and self._transaction(conn, self._pass_over):
                return True
            raise

    def _transaction(self, conn: connection, step: _Step) -> bool:
        position = None
        try:
            with conn:
                position = state_sql.lock(conn, self.source.name)
                if position is None:
                    return False
                to, is_followed = step(conn, position)
                if to is not None:
                    failpoints.reach("merger.before_advance")
                    state_sql.advance(conn, self.source.name, to)
                    failpoints.reach("merger.before_commit")
        except _DATA as e:
            raise SuspendedError(self._misfit(conn, e, position)) from None
        return is_followed

    def _next(self, conn: connection, position: Position) -> tuple[Advance | None, bool]:
        start = position.next_offset
        begins_empty = position.clear_at == start and position.is_clear_due(start)
        if not shape_sql.ensure(conn, self.table, position, begins_empty=begins_empty):
            return None, True  # in a transaction of its own, because the table was locked against readers
        if self.topic_id is None:  # nothing has landed, or only changes of deleted topics
            return self._without_changes(conn, position), False
        landed = self._landed(conn, self.topic_id, position)
        known = landed
        if not self.table.key:
            stop = snapshot_visibility_sql.known_to(
                conn, self.source.name, landed.landing, start, landed.stop
            )
            known = replace(landed, stop=stop)
            if stop == start < landed.stop and self.search.find(conn, landed, start) is not None:
                raise snapshot_visibility_sql.unknown(self.source.name)
        batch = replacement_sql.next_batch(conn, known, self.max_changes, self.search)
        if batch is None:
            state_sql.wait(conn, self.source.name)
            return None, False
        to = self._merge(conn, landed, batch)
        return to, batch.stop < landed.stop and not batch.is_waiting

    def _pass_over(self, conn: connection, position: Position) -> tuple[Advance | None, bool]:
        """Replace all rows by their last replacement, after the table got its columns and key.

        Readers wait meanwhile: the old rows may not fit the columns.
        """
        landed = self._landed(conn, str(self.topic_id), position)
        batch = replacement_sql.last_replacement(conn, landed)
        if batch is None:
            return None, False
        return self._merge(conn, landed, batch, public_table_drift_sql.columns_now(conn, self.table)), True

    def _landed(self, conn: connection, topic_id: str, position: Position) -> Landed:
        settled, dropped_at = state_sql.settled_to(conn, self.source.name, self.landing, topic_id)
        return Landed(
            landing=sql.Identifier(change_table.SCHEMA, self.landing),
            topic_id=topic_id,
            table=self.table,
            position=position,
            stop=settled,
            dropped_at=dropped_at,
        )

    def _without_changes(self, conn: connection, position: Position) -> Advance:
        is_due = position.is_clear_due(position.next_offset)
        if is_due:
            self._empty(conn)
        return Advance(
            topic_id=None,
            next_offset=position.next_offset,
            mark=position.mark,
            carried=None,
            drops=position.drops,
            clear_at=None if is_due else position.clear_at,
        )

    def _merge(
        self, conn: connection, landed: Landed, batch: Batch, changed_from: Shape | None = None
    ) -> Advance:
        """Merge the stage; with `changed_from` the emptied table gets its source's columns."""
        position, landing = landed.position, landed.landing
        start, stop, log = landed.start, batch.stop, position.log_begins_at
        repeats = stage_sql.drop_repeats(conn, landing, start, position.mark, log) if batch.staged else 0
        mark = state_sql.mark(conn, position, stop)
        # Skipped changes are behind the mark: they have come, and a repeat would have the same identity.
        visibility = None
        if not self.table.key:
            visibility = snapshot_visibility_sql.pass_over(
                conn, self.source.name, start, batch.read_from, position.visibility
            )
        new = [at for at in (batch.begins_at, stage_sql.last_truncate(conn)) if at is not None]
        if new:
            stage_sql.cut(conn, max(new))
            if changed_from is None:
                self._empty(conn)
            else:
                public_table_drift_sql.empty(conn, self.table, changed_from)
                shape_sql.change(conn, self.table, position.stored_shape, changed_from)
        if unknown := stage_sql.unknown_columns(conn, self.source.known) if batch.staged else []:
            raise SuspendedError(
                f"changes have a column {', '.join(unknown)} that the schema history does not have: within "
                "seconds the agent adds it, or has the table re-snapshotted if it is gone already. If not, "
                f"check whether the agent runs, or onramp sources resync {self.source.name.source}"
            )
        carried = self._apply(conn, start, stop, None if new else position.carried)
        return Advance(
            topic_id=self.topic_id,
            next_offset=max(start, stop),
            mark=mark,
            carried=carried,
            drops=batch.drops,
            clear_at=batch.clear_at,
            changes=batch.staged,
            repeats=repeats,
            visibility=visibility,
            awaits_snapshot=batch.is_waiting,
        )

    def _empty(self, conn: connection) -> None:
        with conn.cursor() as cursor:
            cursor.execute(sql.SQL("DELETE FROM {}").format(self.table.identifier))

    def _misfit(self, conn: connection, error: psycopg2.Error, position: Position | None) -> str:
        """Return the column and receipt of the value that does not fit."""
        place = misfit_sql.Place(error.diag.column_name or "")
        start = position.next_offset if position else 0
        if position is not None and isinstance(error, psycopg2.DataError):
            with conn:
                place = misfit_sql.find(conn, self._landed(conn, str(self.topic_id), position))
        where = place.receipt or f"a change from offset {start} of landing.{self.landing} on"
        return (
            f"the value of column {place.column or '(unknown)'} in {where} does not fit (SQLSTATE "
            f"{error.pgcode}): give the column a type that takes it at the source, or exclude the column or "
            "the table"
        )

    def _apply(
        self, conn: connection, start: int, stop: int, carried: Mapping[str, Any] | None
    ) -> Mapping[str, Any] | None:
        """Apply the stage; return the row that its last change deleted, which the next change may restore."""
        stage_sql.fill_from_before(conn)
        if not self.table.key:
            placeholders.require_known_values(conn, self.table)
            merge_keyless_sql.merge(conn, self.table)
            return None
        if carried:
            start = min(start, self._put_back(conn, carried, start))
        placeholders.require_known_values(conn, self.table)
        last = _one(conn, "DESC")
        if last is None:
            return carried
        op, lsn, commit, ord_, key, _, at = last
        if op != "d":
            merge_keyed_sql.merge(conn, self.table, start, stop)
            return None
        merge_keyed_sql.merge(conn, self.table, start, at)
        row = self._row(conn, key)
        merge_keyed_sql.merge(conn, self.table, at, stop)
        return None if row is None else {"lsn": lsn, "commit": commit, "ord": ord_, "key": key, "row": row}

    def _put_back(self, conn: connection, carried: Mapping[str, Any], start: int) -> int:
        """Undo the last delete where it began a change of the key; return the offset to start from."""
        first = _one(conn, "ASC")
        if first is None:
            return start
        op, lsn, commit, ord_, _, toast, at = first
        if (
            op != "c"
            or not (toast or self.table.silent)
            or (lsn, commit, ord_ - 1) != tuple(carried[k] for k in ("lsn", "commit", "ord"))
        ):
            return start
        literal = {name: sql.Literal(carried[name]) for name in ("lsn", "commit", "ord")}
        with conn.cursor() as cursor:
            cursor.execute(
                _PUT_BACK.format(
                    table=self.table.identifier,
                    row=_json(carried["row"]),
                    key=_json(carried["key"]),
                    at=sql.Literal(at - 1),
                    **literal,
                )
            )
        return int(at) - 1

    def _row(self, conn: connection, key: str) -> Any:
        same = self.table.same_key("p", _json(key))
        with conn.cursor() as cursor:
            cursor.execute(_ROW.format(table=self.table.identifier, same=same))
            (row,) = cursor.fetchone() or (None,)
        return row


def _one(conn: connection, direction: str) -> Any:
    with conn.cursor() as cursor:
        cursor.execute(_LAST.format(direction))
        return cursor.fetchone()


def _json(text: str) -> sql.Composable:
    return sql.SQL("{}::jsonb").format(sql.Literal(text))
