"""Re-snapshots of tables whose rows changed without an event: their requests, until the rows have landed."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final
from uuid import uuid4

from services.cdc.agent import names
from services.cdc.agent.connect_api import ON_DEMAND, ConnectApi, offset_lsn, snapshot_of
from services.cdc.agent.kafka_topics import ChangeTopics
from services.cdc.agent.source_sql import SourceError
from services.cdc.agent.source_state import Resnapshot, SourceState, StoredState, Table
from services.cdc.agent.source_state_sql import StateStore
from services.cdc.change_detection import snapshot_marker
from services.cdc.change_detection.resnapshots_sql import RequestedSnapshot
from services.cdc.change_detection.snapshot_timeouts import SnapshotTimeouts
from services.cdc.change_detection.table_fingerprint import RowsStamp, why_again
from services.cdc.health.slot import Slot, lsn_number

log = logging.getLogger(__name__)

_ONCE: Final = " once transactions have ended that were open then"


class Resnapshots:
    """Requests re-snapshots of a source's tables, and requests them again when their reader has ended.

    Kafka Connect reads a signal once; a worker or task that ends during the snapshot does not resume it.
    """

    def __init__(
        self,
        name: str,
        *,
        store: StateStore,
        connect: ConnectApi,
        topics: ChangeTopics,
        has_rows: Callable[[int], bool],
    ) -> None:
        self._name = name
        self._store = store
        self._connect = connect
        self._topics = topics
        self._has_rows = has_rows
        #: The offset up to which landing was searched for the end, by table and start of its snapshot.
        self._searched: dict[tuple[str, int], int] = {}
        #: Snapshots whose end has landed.
        self._ended: set[tuple[str, int]] = set()
        #: Snapshots whose table had no rows at the last poll.
        self._without_rows: set[tuple[str, int]] = set()
        self._timeouts = SnapshotTimeouts()
        #: The offset up to which the snapshots' messages were read.
        self._heard: int | None = None
        #: The slot's reader, and the connector's LSN when that reader was first observed.
        self._moved_from: tuple[str | None, int] | None = None
        #: The slot's reader when Kafka Connect was last queried for the end of the first snapshot.
        self._checked_reader: str | None = None
        #: The reasons shown for tables that are re-snapshotted.
        self.reasons: list[str] = []
        #: The slot's reader when the connector was configured: that task ends, and does not know all tables.
        self._replaced: str | None = None

    def note_configured(self, slot: Slot | None) -> None:
        """Note that the connector was configured: a new task reads the slot soon."""
        self._replaced = slot.reader if slot is not None and slot.active else None

    def has_forgotten(self, slot: Slot | None, *, streams: bool) -> bool:
        """Return whether Kafka Connect has lost the end of the first snapshot (`streams`) and takes it again.

        Kafka Connect is queried once for each reader of the slot, and at each poll while the slot has
        no reader: the next reader's snapshot can be over before the next poll.  Raises
        `ConnectError`, `StateStoreError`, `TopicsError`.
        """
        reader = slot.reader if slot is not None and slot.active else None
        if streams and reader is not None and reader == self._checked_reader:
            return False
        self._checked_reader = reader
        # Two readings must agree that offsets are missing, because all tables are re-snapshotted for it.
        is_over = any(snapshot_of(self._offsets()) in (None, ON_DEMAND) for _ in range(1 + streams))
        if is_over != streams:
            # All rows of the snapshot are on the topics: Kafka Connect's offset is behind them.
            ends = self._topics.ends(self._name, self._store.history()) if is_over else {}
            self._store.save_streams(streams=is_over, ends=ends)
        return streams and not is_over

    def leave(self, source_state: SourceState, stored_state: StoredState) -> None:
        """Store that tables are no longer captured, before the connector omits them: on return they are new.

        Raises `StateStoreError`.
        """
        captured = source_state.captured
        still = {name: stamp for name, stamp in (stored_state.tables or {}).items() if name in captured}
        if still != (stored_state.tables or {}):
            self._store.save_tables(still, stored_state.resnapshots)

    def reconcile(self, source_state: SourceState, stored_state: StoredState) -> None:
        """Update the set of tables to re-snapshot, and request those that are due.

        Raises `StateStoreError`, `ConnectError`, `TopicsError`, `SourceError`.
        """
        captured = source_state.captured
        before = stored_state.tables or {}
        now = {name: table.rows_stamp.after(before.get(name)) for name, table in captured.items()}
        if stored_state.tables is None:
            self._store.save_tables(now, {})  # the first snapshot includes all tables
            return
        self._hear(stored_state.resnapshots.values())
        pending = {
            name: left
            for name, each in stored_state.resnapshots.items()
            if name in captured and (left := self._left(captured[name], each, source_state)) is not None
        }
        after = lsn_number(source_state.tables_lsn)
        if now != stored_state.tables:
            for name, why in self._new(stored_state, captured, now).items():
                asked = pending.get(name, Resnapshot())
                pending[name] = replace(
                    asked, why=why, open=source_state.begun, after=after, is_requested=False
                )
        for name, each in pending.items():
            if each.open and each.open <= source_state.ended:
                pending[name] = replace(each, open=0, after=after)
        if now != stored_state.tables or pending != stored_state.resnapshots:
            self._store.save_tables(now, pending)
        self.reasons = [
            f"{name} is re-snapshotted{_ONCE if each.open else ''}: {each.why}"
            for name, each in pending.items()
        ]
        if pending and source_state.slot is not None and source_state.slot.active:
            self._ask(source_state.slot, captured, now, pending)

    def _new(
        self, stored_state: StoredState, captured: Mapping[str, Table], now: dict[str, RowsStamp]
    ) -> dict[str, str]:
        """Return reasons to re-snapshot, by table; `now` gets the old entry of an unreadable table."""
        before = stored_state.tables or {}
        new = {n: t for n, t in captured.items() if n not in before or before[n].oid != t.oid}
        ends = self._topics.ends(self._name, [(t.schema, t.name) for t in new.values()])
        had_rows = {n for n, t in new.items() if ends[t.schema, t.name].offset}
        found: dict[str, str] = {}
        for name in captured:
            # No other query reports a partition that cannot be read.
            ask = self._has_rows if name in new else self._may_hold_rows
            try:
                why = why_again(before.get(name), now[name], ask, had_rows=name in had_rows)
            except SourceError as error:
                extra = {"source": self._name, "table": name, "reason": str(error)}
                log.warning("cannot check whether a table must be re-snapshotted", extra=extra)
                now.pop(name)
                now |= {name: before[name]} if name in before else {}
            else:
                found |= {name: why} if why else {}
        return found

    def _left(self, table: Table, pending: Resnapshot, source_state: SourceState) -> Resnapshot | None:
        """Return the pending re-snapshot, or None once the table's rows have landed."""
        if not pending.is_requested:
            return pending
        at, name = (table.full_name, pending.start), (table.schema, table.name)
        if at not in self._ended:
            start = self._searched.get(at, pending.start)
            has_end, self._searched[at] = self._store.has_snapshots_end(name, start)
            self._ended |= {at} if has_end else set()
        # The end alone is not enough: the marker of the snapshot must have been read too.
        had_rows = self._store.had_rows(pending.token) if pending.token else True
        if (
            had_rows is not None
            and at not in self._ended
            and not self._may_have_rows(table, pending, had_rows)
        ):
            return self._emptied(table, pending)
        if had_rows is None or at not in self._ended:
            return self._unless_timed_out(table, pending, source_state)
        self._forget(at)
        return None

    def _may_have_rows(self, table: Table, pending: Resnapshot, had_rows: bool) -> bool:
        """Return whether a snapshot will have rows; two polls must agree that a table has none."""
        if pending.token:
            return had_rows
        at = (table.full_name, pending.start)
        was_empty, is_empty = at in self._without_rows, not self._may_hold_rows(table.oid)
        self._without_rows = self._without_rows | {at} if is_empty else self._without_rows - {at}
        return not (was_empty and is_empty)

    def _may_hold_rows(self, oid: int) -> bool:
        try:
            return self._has_rows(oid)
        except SourceError:  # locked, or closed to the role: other tables do not wait for it
            return True

    def _emptied(self, table: Table, pending: Resnapshot) -> Resnapshot | None:
        """Empty the public table from the requested offset on: later changes fill it."""
        extra = {"source": self._name, "table": table.full_name}
        self._forget((table.full_name, pending.start))
        name = (table.schema, table.name)
        if not self._store.empty(name, pending.start, pending.token):
            log.warning(
                "requesting a re-snapshot again: later changes have been trimmed from landing", extra=extra
            )
            return replace(pending, is_requested=False, reader=None)
        log.info("a public table is emptied: its source has no rows", extra=extra)
        return None

    def _forget(self, at: tuple[str, int]) -> None:
        self._searched.pop(at, None)
        self._ended.discard(at)
        self._without_rows.discard(at)
        self._timeouts.is_done(at)

    def _unless_timed_out(self, table: Table, pending: Resnapshot, source_state: SourceState) -> Resnapshot:
        """Return the pending re-snapshot, or a new request for it if its snapshot has failed."""
        if source_state.slot is None:
            return pending
        at, name = (table.full_name, pending.start), (table.schema, table.name)
        if not self._timeouts.has_timed_out(
            at,
            log_end=lsn_number(source_state.tables_lsn),
            confirmed=source_state.slot.confirmed,
            landed=self._searched.get(at, pending.start),
            topic_end=lambda: self._topics.ends(self._name, [name])[name].offset,
        ):
            return pending
        return replace(
            pending, why=f"its snapshot has failed ({pending.why})", is_requested=False, reader=None
        )

    def _hear(self, resnapshots: Iterable[Resnapshot]) -> None:
        """Read and store the snapshots' markers while snapshots with a token are pending."""
        starts = [each.messages for each in resnapshots if each.token]
        if not starts:
            self._heard = None
            return
        start = min(starts) if self._heard is None else self._heard
        messages, self._heard = self._topics.messages(self._name, start)
        if markers := snapshot_marker.markers_in(messages):
            self._store.save_markers(markers)

    def _ask(
        self,
        slot: Slot,
        captured: Mapping[str, Table],
        now: Mapping[str, RowsStamp],
        pending: Mapping[str, Resnapshot],
    ) -> None:
        """Request the snapshots that were not requested, or whose reader has ended.

        A request waits until all older transactions have ended and Kafka has their changes. Otherwise
        these changes would follow the snapshot's rows and overwrite them, without the values that no
        event has.
        """
        reader = slot.reader
        if reader == self._replaced:
            return
        wanted = {
            name: each
            for name, each in pending.items()
            if not (each.is_requested and each.reader == reader)
            and not each.open
            and each.after <= slot.confirmed
        }
        is_busy = any(each.reader == reader for each in pending.values())
        if not wanted or not self._takes_signals(reader, is_busy=is_busy):
            return
        tables = {name: (captured[name].schema, captured[name].name) for name in wanted}
        ends = self._topics.ends(self._name, tables.values())
        for name, each in wanted.items():
            why = f"its reader has ended ({each.why})" if each.is_requested else each.why
            log.info("re-snapshotting a table", extra={"source": self._name, "table": name, "reason": why})
        tokens = {name: uuid4() for name in wanted if not captured[name].key}
        end = self._topics.messages_end(self._name) if tokens else 0
        asked = dict(pending)
        for name, each in wanted.items():
            token = str(tokens.get(name, ""))
            # An earlier request may have rows and no message yet.
            messages = each.messages if each.token else end
            asked[name] = replace(
                each,
                is_requested=True,
                reader=reader,
                start=ends[tables[name]].offset,
                token=token,
                messages=messages,
            )
        # The requests are stored before the signal is sent: rows of an unknown snapshot count as a first
        # one's.
        self._store.save_requests(
            [RequestedSnapshot(*tables[name], asked[name].start, asked[name].token) for name in tokens]
        )
        signals = {name: captured[name].condition(tokens.get(name)) for name in wanted}
        self._topics.read_again(self._name, signals)
        self._store.save_tables(now, asked)

    def _takes_signals(self, reader: str | None, *, is_busy: bool) -> bool:
        """Return whether the connector reads signals now, and no other snapshot's end can be mistaken.

        `is_busy`: whether this reader of the slot already has a request.
        """
        offsets = self._offsets()
        lsn = offset_lsn(offsets)
        if self._moved_from is None or self._moved_from[0] != reader:
            self._moved_from = reader, lsn
        # A starting connector searches for its position in the log, and another process may read the slot
        # afterwards: it would receive the request twice.
        if not offsets or lsn == self._moved_from[1]:
            return False
        # The first snapshot reads all rows: a signal would have no effect.
        snapshot = snapshot_of(offsets)
        return snapshot is None or (snapshot == ON_DEMAND and not is_busy)

    def _offsets(self) -> list[Any]:
        return self._connect.offsets(names.connector(self._name))
