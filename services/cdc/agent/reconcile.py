"""The agent's flow: one look at one source, top to bottom."""

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
from services.cdc.agent.resnapshots import Rereads
from services.cdc.agent.source_sql import SourceDatabase, SourceError
from services.cdc.agent.source_state import Kept, Seen, Shown, State
from services.cdc.agent.source_state_sql import KeptDatabase, KeptError
from services.cdc.health.gap import Gap, GapCheck, Readings
from services.cdc.health.merge_lag import Unmerged
from services.cdc.health.refusals import Refusals
from services.cdc.health.remedies import with_remedy
from services.cdc.health.slot import Readers
from services.cdc.health.slot_watch import SlotWatch
from shared.backoff import Backoff
from shared.registry.sources import Source

log = logging.getLogger(__name__)

_POLICE_SECONDS: Final = 60.0
_GB: Final = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What a look reaches: the source, what is kept of it, Kafka Connect and its topics."""

    database: SourceDatabase
    kept: KeptDatabase
    connect: ConnectApi
    topics: ChangeTopics
    rendering: Rendering


class SourceLook:
    """Looks at one source, again and again."""

    def __init__(self, name: str, source: Source, reach: Reach) -> None:
        self._name = name
        self._source = source
        self._reach = reach
        self._restart = Backoff()
        self._refusals = Refusals(lambda error: isinstance(error, RefusedError))
        self._rereads = Rereads(
            name,
            kept=reach.kept,
            connect=reach.connect,
            topics=reach.topics,
            has_rows=reach.database.has_rows,
        )
        self._policed_at = float("-inf")
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
        self._held, self._unmerged_s = 0, 0.0

    def look(self) -> Shown:
        """Return how the source is, and have done what it needs."""
        seen: Seen | None = None
        try:
            seen = self._reach.database.look()
            self._slot.see(seen.slot)
            if not self._reach.kept.watch():
                return Shown(state=State.STANDBY, reason="another agent watches over it, until that ends")
            kept = self._reach.kept.read()
            self._slot.note_reader(seen.slot, kept.readers)
            self._slot.note_streams(streams=kept.streams)
            self._held, self._unmerged_s = kept.held, self._unmerged.seconds(kept.behind)
            if kept.out_of_sync_at is None and (
                gap := self._gaps.find(seen.slot, had_slot=kept.had_slot, streams=kept.streams)
            ):
                kept = self._mark(gap)
            if kept.out_of_sync_at is not None:
                shown = self._stay_out(seen, kept)
            elif seen.unprepared:
                if seen.lacks_schema and kept.tables:  # it may have another name, and be back later
                    self._reach.kept.keep_tables({}, kept.rereads)
                reason = f"{seen.unprepared}: run what `onramp sources sql {self._name}` prints"
                shown = self._shown(State.SETUP_REQUIRED, reason, seen)
            else:
                shown = self._capture(seen, kept)
            self._reach.kept.show(shown)
        except (SourceError, KeptError, ConnectError, TopicsError) as error:
            shown = self._shown(State.UNREACHABLE, self._with_remedy(str(error)), seen)
            self._show_if_possible(shown, error)
        return shown

    def remove(self) -> bool:
        """Remove what the source has at Kafka Connect and at the source itself; whether all of it is gone.

        Raises `ConnectError`, `SourceError`, `KeptError`.
        """
        connect, connector = self._reach.connect, names.connector(self._name)
        status = connect.status(connector)
        if status is not None and not status.is_stopped:
            connect.stop(connector)
            return False
        if status is not None:
            # They outlive the connector: one of the same name would go on from there.
            connect.delete_offsets(connector)
            connect.delete(connector)
        if not self._reach.database.drop_slot():
            return False
        self._reach.kept.forget()
        return True

    def close(self) -> None:
        """Close the connections."""
        self._reach.database.close()
        self._reach.kept.close()

    def _capture(self, seen: Seen, kept: Kept) -> Shown:
        self._record(seen, kept)
        status = self._keep_connector(seen, kept)
        if monotonic() - self._policed_at >= _POLICE_SECONDS:
            self._trouble = self._reach.topics.police(self._name)
            self._policed_at = monotonic()
        if self._slot.is_lost(seen.slot):
            self._reach.database.commit()
        self._rereads.look(seen, kept)
        return self._judge(seen, kept, status)

    def _record(self, seen: Seen, kept: Kept) -> None:
        """Add what changed in the catalogue to the tables' history, before changes by it can be read."""
        there = self._reach.kept.history()
        tables = {(t.schema, t.name): t for t in seen.tables if not t.is_partition}
        dropped = [
            name
            for name, (_, _, is_dropped) in there.items()
            if not is_dropped and (name not in tables or kept.is_another(tables[name]))
        ]
        changed = [
            table
            for name, table in tables.items()
            if name in dropped
            or there.get(name) != ([c._asdict() for c in table.columns], table.key and list(table.key), False)
        ]
        if changed or dropped:
            self._reach.kept.record(seen, changed, dropped)

    def _keep_connector(self, seen: Seen, kept: Kept) -> ConnectorStatus | None:
        """Have the connector be there, configured as it must be, and running."""
        connect, connector = self._reach.connect, names.connector(self._name)
        wanted = self._reach.rendering.config(self._name, self._source, self._reach.database.parameters, seen)
        there = connect.config(connector)
        if there is None:
            self._reach.topics.make_signals(self._name)
            # A source of this name may have been here, and was removed: with its offsets, or it goes on.
            if not connect.offsets(connector):
                self._begin(seen, kept)
        if there != {**wanted, "name": connector}:
            self._rereads.leave(seen, kept)
            with self._refusals.attempt(wanted):
                log.info("configuring a source's connector", extra={"source": self._name})
                connect.put_config(connector, wanted)
            self._rereads.note_configured(seen.slot)
        if there is not None and self._rereads.has_forgotten(seen.slot, streams=kept.streams):
            self._begin(seen, kept)
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

    def _mark(self, gap: Gap) -> Kept:
        log.error(
            "a first snapshot starts again: its slot is dropped"
            if gap.starts_again
            else "a source is out of sync: its slot is dropped, and changes are missing until a resync",
            extra={"source": self._name, "reason": gap.why},
        )
        self._reach.kept.mark_out_of_sync(gap)
        return self._reach.kept.read()

    def _stay_out(self, seen: Seen, kept: Kept) -> Shown:
        """Free the WAL of a source whose changes are missing, and read everything again when it is asked."""
        trouble = ""
        status = None
        try:
            status = self._stopped()
        except ConnectError as error:
            trouble = f"; {error}"  # the WAL is freed all the same: who is away does not hold the slot
        is_gone = self._drop_slot()
        if (
            kept.resync_wanted_at is not None
            and is_gone
            and not trouble
            and (not status or status.is_stopped)
        ):
            self._begin_again(seen, has_connector=status is not None)
            # The slot that was observed is gone: nobody has observed the next one.
            return self._shown(State.STARTING, "everything is read again", replace(seen, slot=None))
        since = f"since {kept.out_of_sync_lsn or 'an unknown LSN'}, {kept.out_of_sync_at:%Y-%m-%d %H:%M:%S%z}"
        reason = f"{kept.out_of_sync_why}; changes are missing {since}: onramp sources resync {self._name}"
        return self._shown(State.OUT_OF_SYNC, reason + trouble, seen)

    def _drop_slot(self) -> bool:
        """Drop the slot if this agent still watches over the source, and it is still out of sync.

        Another agent may have taken over meanwhile: the slot can be that of its resync.
        """
        kept = self._reach.kept
        return kept.watch() and kept.read().out_of_sync_at is not None and self._reach.database.drop_slot()

    def _stopped(self) -> ConnectorStatus | None:
        connector = names.connector(self._name)
        status = self._reach.connect.status(connector)
        if status is not None and not status.is_stopped:
            self._reach.connect.stop(connector)
        return status

    def _begin_again(self, seen: Seen, *, has_connector: bool) -> None:
        if has_connector:
            self._reach.connect.delete_offsets(names.connector(self._name))
        self._clear(seen)
        self._slot.forget()
        log.info("a source is read again from its beginning", extra={"source": self._name})

    def _begin(self, seen: Seen, kept: Kept) -> None:
        """Prepare for a snapshot of everything by a connector that knows nothing of one before."""
        if kept.tables is None:
            self._clear(seen)
        elif kept.tables:
            # The slot is there: what the snapshot and the log both have, or neither has, nobody can tell.
            log.error("Kafka Connect has forgotten a source: it is read again", extra={"source": self._name})
            self._reach.kept.keep_tables({}, kept.rereads)

    def _clear(self, seen: Seen) -> None:
        """Have public tables begin empty, for a first snapshot: it says nothing of those without rows."""
        tables = [*self._reach.kept.history(), *((t.schema, t.name) for t in seen.tables)]
        self._reach.kept.heal(self._reach.topics.ends(self._name, tables))

    def _judge(self, seen: Seen, kept: Kept, status: ConnectorStatus | None) -> Shown:
        if status is not None:
            self._slot.note_complaint(status.reason)
        if program := self._slot.other_program(seen.slot):
            return self._shown(State.SLOT_IN_USE, program, seen)
        if status is not None and status.has_failed:
            return self._shown(State.FAILED, self._with_remedy(status.reason), seen)
        slot = seen.slot
        if slot is None or not slot.active:
            what = "its slot is not read yet" if kept.streams else "its first snapshot is not over"
            return self._shown(State.STARTING, "; ".join([what, *self._slot.silence]), seen)
        reasons = [*self._trouble, *self._rereads.reasons, *self._slot.silence]
        reasons += [f"{name} stays out: {why}" for name, why in seen.left_out.items()]
        return self._shown(State.STREAMING, "; ".join(reasons), seen)

    def _with_remedy(self, reason: str) -> str:
        env = self._source.dsn_env
        return with_remedy(reason, name=self._name, dsn_env=env, most_bytes=MAX_BYTES)

    def _shown(self, state: State, reason: str, seen: Seen | None) -> Shown:
        slot = seen.slot if seen else None
        # Also while Kafka Connect is away: it is then that WAL grows.
        if slot is not None and slot.retained_bytes >= self._source.wal_alarm_bytes:
            alarm = f"its slot holds {slot.retained_bytes / _GB:.2f} GB of WAL"
            reason = "; ".join(filter(None, (reason, f"{alarm}, and wal_alarm is {self._source.wal_alarm}")))
        return Shown(
            state=state,
            reason=reason,
            heartbeat_age_s=self._slot.heartbeat_age,
            seen=seen,
            readers=self._slot.readers or Readers(),
            held=self._held,
            unmerged_s=self._unmerged_s,
        )

    def _show_if_possible(self, shown: Shown, error: Exception) -> None:
        if isinstance(error, KeptError):
            return
        try:
            self._reach.kept.show(shown)
        except KeptError as also:
            log.warning("how a source is cannot be kept", extra={"source": self._name, "reason": str(also)})
