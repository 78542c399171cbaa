"""The agent's flow: one reconciliation of one source, top to bottom."""

import logging
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from typing import Final

from services.cdc.agent import names
from services.cdc.agent.connect_api import (
    ConnectApi,
    ConnectError,
    ConnectorStatus,
    RefusedError,
)
from services.cdc.agent.connector import MAX_BYTES, Rendering
from services.cdc.agent.kafka_topics import ChangeTopics, TopicsError
from services.cdc.agent.resnapshots import Resnapshots
from services.cdc.agent.source_sql import SourceDatabase, SourceError
from services.cdc.agent.source_state import Shown, SourceState, State, StoredState
from services.cdc.agent.source_state_sql import StateStore, StateStoreError
from services.cdc.health.merge_lag import Unmerged
from services.cdc.health.out_of_sync import Gap, GapCheck, Readings
from services.cdc.health.refusals import Refusals
from services.cdc.health.remedies import with_remedy
from services.cdc.health.slot import Readers
from services.cdc.health.slot_watch import SlotWatch
from shared.backoff import Backoff
from shared.registry.sources import Source

log = logging.getLogger(__name__)

_ENFORCE_SECONDS: Final = 60.0
_GB: Final = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The connections of a reconciliation: the source, its stored state, Kafka Connect and its topics."""

    database: SourceDatabase
    store: StateStore
    connect: ConnectApi
    topics: ChangeTopics
    rendering: Rendering


class SourceReconciler:
    """Reconciles one source, poll by poll."""

    def __init__(self, name: str, source: Source, reach: Reach) -> None:
        self._name = name
        self._source = source
        self._reach = reach
        self._restart = Backoff()
        self._refusals = Refusals(lambda error: isinstance(error, RefusedError))
        self._resnapshots = Resnapshots(
            name,
            store=reach.store,
            connect=reach.connect,
            topics=reach.topics,
            has_rows=reach.database.has_rows,
        )
        self._enforced_at = float("-inf")
        self._trouble: list[str] = []
        self._slot = SlotWatch()
        self._gaps = GapCheck(
            self._slot,
            Readings(
                slot=reach.database.slot,
                position=partial(reach.connect.position, names.connector(name)),
                sent=partial(reach.connect.sent, names.connector(name)),
            ),
            budget_bytes=source.wal_budget_bytes,
            budget=source.wal_budget,
        )
        self._unmerged = Unmerged()
        self._suspended, self._unmerged_s = 0, 0.0

    def reconcile(self) -> Shown:
        """Bring the source to its desired state, and return its status."""
        source_state: SourceState | None = None
        try:
            source_state = self._reach.database.inspect()
            self._slot.see(source_state.slot)
            if not self._reach.store.watch():
                return Shown(state=State.STANDBY, reason="another agent watches it, until that one ends")
            stored_state = self._reach.store.read()
            self._slot.note_reader(source_state.slot, stored_state.readers)
            self._slot.note_streams(streams=stored_state.streams)
            self._suspended, self._unmerged_s = (
                stored_state.suspended,
                self._unmerged.seconds(stored_state.behind),
            )
            if stored_state.out_of_sync_at is None and (
                gap := self._gaps.find(
                    source_state.slot, had_slot=stored_state.had_slot, streams=stored_state.streams
                )
            ):
                stored_state = self._mark(gap)
            if stored_state.out_of_sync_at is not None:
                shown = self._free_wal(source_state, stored_state)
            elif source_state.unprepared:
                if (
                    source_state.lacks_schema and stored_state.tables
                ):  # the schema may have been renamed, and may return later
                    self._reach.store.save_tables({}, stored_state.resnapshots)
                reason = f"{source_state.unprepared}: run what `onramp sources sql {self._name}` prints"
                shown = self._shown(State.SETUP_REQUIRED, reason, source_state)
            else:
                shown = self._capture(source_state, stored_state)
            self._reach.store.show(shown)
        except (SourceError, StateStoreError, ConnectError, TopicsError) as error:
            shown = self._shown(State.UNREACHABLE, self._with_remedy(str(error)), source_state)
            self._show_if_possible(shown, error)
        return shown

    def remove(self) -> bool:
        """Remove the source's objects from Kafka Connect and the source; return whether all are removed.

        Raises `ConnectError`, `SourceError`, `StateStoreError`.
        """
        connect, connector = self._reach.connect, names.connector(self._name)
        status = connect.status(connector)
        if status is not None and not status.is_stopped:
            connect.stop(connector)
            return False
        if status is not None:
            # Offsets outlive the connector: a later connector of the same name would continue from them.
            connect.delete_offsets(connector)
            connect.delete(connector)
        if not self._reach.database.drop_slot():
            return False
        self._reach.store.forget()
        return True

    def close(self) -> None:
        """Close the connections."""
        self._reach.database.close()
        self._reach.store.close()

    def _capture(self, source_state: SourceState, stored_state: StoredState) -> Shown:
        self._record(source_state, stored_state)
        status = self._keep_connector(source_state, stored_state)
        if monotonic() - self._enforced_at >= _ENFORCE_SECONDS:
            self._trouble = self._reach.topics.enforce_settings(self._name)
            self._enforced_at = monotonic()
        if self._slot.is_lost(source_state.slot):
            self._reach.database.commit()
        self._resnapshots.reconcile(source_state, stored_state)
        return self._evaluate(source_state, stored_state, status)

    def _record(self, source_state: SourceState, stored_state: StoredState) -> None:
        """Add catalogue changes to the tables' history, before a change that depends on them can be read."""
        there = self._reach.store.history()
        tables = {(t.schema, t.name): t for t in source_state.tables if not t.is_partition}
        dropped = [
            name
            for name, (_, _, is_dropped) in there.items()
            if not is_dropped and (name not in tables or stored_state.is_another(tables[name]))
        ]
        changed = [
            table
            for name, table in tables.items()
            if name in dropped
            or there.get(name) != ([c._asdict() for c in table.columns], table.key and list(table.key), False)
        ]
        if changed or dropped:
            self._reach.store.record(source_state, changed, dropped)

    def _keep_connector(self, source_state: SourceState, stored_state: StoredState) -> ConnectorStatus | None:
        """Create, configure and start the connector as needed; return its status."""
        connect, connector = self._reach.connect, names.connector(self._name)
        wanted = self._reach.rendering.config(
            self._name, self._source, self._reach.database.parameters, source_state
        )
        there = connect.config(connector)
        if there is None:
            self._reach.topics.make_signals(self._name)
            # A source of this name may have existed and been removed: without its offsets, or the connector
            # continues.
            if not connect.offsets(connector):
                self._begin(source_state, stored_state)
        if there != {**wanted, "name": connector}:
            self._resnapshots.leave(source_state, stored_state)
            with self._refusals.attempt(wanted):
                log.info("configuring a source's connector", extra={"source": self._name})
                connect.put_config(connector, wanted)
            self._resnapshots.note_configured(source_state.slot)
        if there is not None and self._resnapshots.has_forgotten(
            source_state.slot, streams=stored_state.streams
        ):
            self._begin(source_state, stored_state)
        status = connect.status(connector)
        if status is not None and status.connector == "STOPPED":
            connect.resume(connector)
        elif status is not None and status.has_failed and self._restart.is_due():
            log.error(
                "a source's connector has failed and is restarted",
                extra={"source": self._name, "reason": status.reason},
            )
            self._restart.fail()
            connect.restart(connector)
        elif status is not None and not status.has_failed:
            self._restart.succeed()
        return status

    def _mark(self, gap: Gap) -> StoredState:
        log.error(
            "a first snapshot starts again: its slot is dropped"
            if gap.starts_again
            else "a source is out of sync: its slot is dropped, and changes are missing until a resync",
            extra={"source": self._name, "reason": gap.why},
        )
        self._reach.store.mark_out_of_sync(gap)
        return self._reach.store.read()

    def _free_wal(self, source_state: SourceState, stored_state: StoredState) -> Shown:
        """Free the WAL of a source whose changes are missing; start a resync when one is requested."""
        trouble = ""
        status = None
        try:
            status = self._stopped()
        except ConnectError as error:
            trouble = f"; {error}"  # its WAL must be freed all the same
        is_gone = self._drop_slot()
        if (
            stored_state.resync_requested_at is not None
            and is_gone
            and not trouble
            and (not status or status.is_stopped)
        ):
            self._begin_again(source_state, has_connector=status is not None)
            # The observed slot is gone, and the next one has not been observed.
            return self._shown(
                State.STARTING, "everything is re-snapshotted", replace(source_state, slot=None)
            )
        lsn = stored_state.out_of_sync_lsn or "an unknown LSN"
        since = f"since {lsn}, {stored_state.out_of_sync_at:%Y-%m-%d %H:%M:%S%z}"
        reason = (
            f"{stored_state.out_of_sync_why}; changes are missing {since}: onramp sources resync {self._name}"
        )
        return self._shown(State.OUT_OF_SYNC, reason + trouble, source_state)

    def _drop_slot(self) -> bool:
        """Drop the slot if this agent still watches the source, and the source is still out of sync.

        Another agent may have taken over meanwhile: the slot can be that of its resync.
        """
        store = self._reach.store
        return store.watch() and store.read().out_of_sync_at is not None and self._reach.database.drop_slot()

    def _stopped(self) -> ConnectorStatus | None:
        connector = names.connector(self._name)
        status = self._reach.connect.status(connector)
        if status is not None and not status.is_stopped:
            self._reach.connect.stop(connector)
        return status

    def _begin_again(self, source_state: SourceState, *, has_connector: bool) -> None:
        if has_connector:
            self._reach.connect.delete_offsets(names.connector(self._name))
        self._clear(source_state)
        self._slot.forget()
        log.info("re-snapshotting a source from its beginning", extra={"source": self._name})

    def _begin(self, source_state: SourceState, stored_state: StoredState) -> None:
        """Prepare for a full snapshot by a connector without offsets."""
        if stored_state.tables is None:
            self._clear(source_state)
        elif stored_state.tables:
            # The slot exists: changes may be in both the snapshot and the log, or in neither.
            log.error(
                "Kafka Connect has lost the offsets of a source: re-snapshotting it",
                extra={"source": self._name},
            )
            self._reach.store.save_tables({}, stored_state.resnapshots)

    def _clear(self, source_state: SourceState) -> None:
        """Mark public tables as empty: a first snapshot has no event for a table without rows."""
        tables = [*self._reach.store.history(), *((t.schema, t.name) for t in source_state.tables)]
        self._reach.store.heal(self._reach.topics.ends(self._name, tables))

    def _evaluate(
        self, source_state: SourceState, stored_state: StoredState, status: ConnectorStatus | None
    ) -> Shown:
        if status is not None:
            self._slot.note_failure(status.reason)
        if program := self._slot.other_program(source_state.slot):
            return self._shown(State.SLOT_IN_USE, program, source_state)
        if status is not None and status.has_failed:
            return self._shown(State.FAILED, self._with_remedy(status.reason), source_state)
        slot = source_state.slot
        if slot is None or not slot.active:
            what = "its slot has no reader yet" if stored_state.streams else "its first snapshot is not over"
            return self._shown(State.STARTING, "; ".join([what, *self._slot.silence]), source_state)
        reasons = [*self._trouble, *self._resnapshots.reasons, *self._slot.silence]
        reasons += [f"{name} is excluded: {why}" for name, why in source_state.excluded_tables.items()]
        return self._shown(State.STREAMING, "; ".join(reasons), source_state)

    def _with_remedy(self, reason: str) -> str:
        env = self._source.dsn_env
        return with_remedy(reason, name=self._name, dsn_env=env, max_bytes=MAX_BYTES)

    def _shown(self, state: State, reason: str, source_state: SourceState | None) -> Shown:
        slot = source_state.slot if source_state else None
        # The alarm also applies while Kafka Connect is unreachable: WAL grows then.
        if slot is not None and slot.retained_bytes >= self._source.wal_alarm_bytes:
            alarm = f"its slot holds {slot.retained_bytes / _GB:.2f} GB of WAL"
            reason = "; ".join(filter(None, (reason, f"{alarm}, and wal_alarm is {self._source.wal_alarm}")))
        return Shown(
            state=state,
            reason=reason,
            heartbeat_age_s=self._slot.heartbeat_age,
            source_state=source_state,
            readers=self._slot.readers or Readers(),
            suspended=self._suspended,
            unmerged_s=self._unmerged_s,
        )

    def _show_if_possible(self, shown: Shown, error: Exception) -> None:
        if isinstance(error, StateStoreError):
            return
        try:
            self._reach.store.show(shown)
        except StateStoreError as also:
            log.warning(
                "cannot store the state of a source", extra={"source": self._name, "reason": str(also)}
            )
