"""The modeler's flow for one table: what landed is merged into the public table, in one transaction.

Invariant: the public table and `onramp.models` move together or not at all, so a merge that is cut short,
or that runs twice, is the same as one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import connection

from services.elt.merge import (
    keyed_sql,
    keyless_sql,
    made_sql,
    placeholders,
    seen_sql,
    shape_sql,
    stage_sql,
    state_sql,
    superseded_sql,
)
from services.elt.merge.held import HeldError
from services.elt.merge.history_sql import SourceTable
from services.elt.merge.public_table import PublicTable
from services.elt.merge.state_sql import Advance, Position
from shared import change_table, failpoints

#: Changes of one transaction; a larger source's transaction becomes visible in several.
MOST_CHANGES: Final = 100_000
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


@dataclass(frozen=True, kw_only=True)
class Merge:
    """One table to merge: what is known of it, how it is published, and the topic that feeds it, if any."""

    source: SourceTable
    table: PublicTable
    topic_id: str | None
    most: int = MOST_CHANGES

    @property
    def landing(self) -> str:
        """Return the name of its landing table."""
        return change_table.name_of(*self.source.name)

    def run(self, conn: connection) -> bool:
        """Merge what landed; returns whether there is more.  Raises `HeldError`, or psycopg2's error.

        What does not fit is passed over where the table was read again after it.
        """
        try:
            return self._run(conn)
        except HeldError as e:
            conn.rollback()
            if self.topic_id is None or not superseded_sql.pass_over(
                conn, self.source, self.table, self.topic_id
            ):
                if isinstance(e, made_sql.DamagedError):
                    made_sql.note(conn, self.source.name, str(e))
                raise
            return True

    def _run(self, conn: connection) -> bool:
        position = None
        try:
            with conn:
                position = state_sql.lock(conn, self.source.name)
                if position is None:
                    return False
                if not shape_sql.ensure(conn, self.table, position):
                    return True  # of a transaction of its own: the table was locked against readers
                to, more = self._merge(conn, position)
                failpoints.reach("modeler.before_advance")
                state_sql.advance(conn, self.source.name, to)
                failpoints.reach("modeler.before_commit")
        except _DATA as e:
            raise HeldError(
                f"a value does not fit its column (SQLSTATE {e.pgcode}{_column(e)}) in changes from offset "
                f"{position.next_offset if position else '?'} of landing.{self.landing} on: give the public "
                "column a type that takes it at the source, or exclude the column or table"
            ) from None
        return more

    def _merge(self, conn: connection, position: Position) -> tuple[Advance, bool]:
        if self.topic_id is None:  # nothing ever landed, or of topics alone that are no more
            if position.clear_at is not None and position.clear_at <= position.next_offset:
                self._empty(conn)
            return Advance(None, position.next_offset, position.mark, None, position.drops), False
        landing = sql.Identifier(change_table.SCHEMA, self.landing)
        start, settled = position.next_offset, state_sql.settled_to(conn, self.landing, self.topic_id)
        stop = stage_sql.end(conn, landing, start, settled, self.most)
        if not self.table.key:
            stop = seen_sql.known_to(conn, self.source.name, landing, start, stop)
        staged = stage_sql.fill(conn, landing, self.table.key, start, stop)
        log = position.log_begins_at
        repeats = stage_sql.drop_repeats(conn, landing, start, position.mark, log) if staged else 0
        if unknown := stage_sql.unknown_columns(conn, self.source.known) if staged else []:
            raise HeldError(
                f"changes have a column {', '.join(unknown)} that the schema history does not have: within "
                "seconds the agent adds it, or has the table read again if it is gone already. If not, look "
                f"whether it runs, or onramp sources resync {self.source.name.source}"
            )
        mark = state_sql.mark(conn, position, stop)
        read_from = stage_sql.last_snapshot(conn, landing, start)
        # Behind the mark: what is passed over has come, and would come again with the same identity.
        seen = None
        if not self.table.key:
            seen = seen_sql.pass_over(conn, self.source.name, start, read_from, position.seen)
        cut, drops = self._begins_at(conn, read_from, stop, position), position.drops
        if cut is not None:
            stage_sql.cut(conn, cut)
            self._empty(conn)
        carried = self._apply(conn, start, stop, None if cut is not None else position.carried)
        if self._dropped_behind(conn, position):
            drops = len(self.source.dropped_at)
        to = Advance(self.topic_id, max(start, stop), mark, carried, drops, staged, repeats, seen)
        return to, stop < settled

    def _empty(self, conn: connection) -> None:
        with conn.cursor() as cursor:
            cursor.execute(sql.SQL("DELETE FROM {}").format(self.table.identifier))

    def _begins_at(
        self, conn: connection, read_from: int | None, stop: int, position: Position
    ) -> int | None:
        """Return the last offset at which the table begins empty; at `read_from` the last snapshot does."""
        new = [read_from]
        if position.clear_at is not None and position.clear_at <= stop:
            new.append(position.clear_at)
        if position.drops < len(self.source.dropped_at):
            new.append(stage_sql.first_after(conn, self.source.dropped_at[-1]))
        new.append(stage_sql.last_truncate(conn))
        return max((at for at in new if at is not None), default=None)

    def _dropped_behind(self, conn: connection, position: Position) -> bool:
        pending = position.drops < len(self.source.dropped_at)
        return pending and stage_sql.first_after(conn, self.source.dropped_at[-1]) is not None

    def _apply(
        self, conn: connection, start: int, stop: int, carried: Mapping[str, Any] | None
    ) -> Mapping[str, Any] | None:
        """Apply the stage; returns the row that its last change deleted, which the next may have again."""
        stage_sql.fill_from_before(conn)
        if not self.table.key:
            placeholders.require_told(conn, self.table)
            keyless_sql.merge(conn, self.table)
            return None
        if carried:
            start = min(start, self._put_back(conn, carried, start))
        placeholders.require_told(conn, self.table)
        last = _one(conn, "DESC")
        if last is None:
            return carried
        op, lsn, commit, ord_, key, _, at = last
        if op != "d":
            keyed_sql.merge(conn, self.table, start, stop)
            return None
        keyed_sql.merge(conn, self.table, start, at)
        row = self._row(conn, key)
        keyed_sql.merge(conn, self.table, at, stop)
        return None if row is None else {"lsn": lsn, "commit": commit, "ord": ord_, "key": key, "row": row}

    def _put_back(self, conn: connection, carried: Mapping[str, Any], start: int) -> int:
        """Undo the last delete where it was the first half of a new key; returns the offset to begin at."""
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


def _column(error: psycopg2.Error) -> str:
    return f", column {error.diag.column_name}" if error.diag.column_name else ""
