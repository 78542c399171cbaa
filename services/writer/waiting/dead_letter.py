"""Parks the events that an operator has dead-lettered: those behind a hold at that time, in order.

The table is not written, so a lock on it does not matter.  Invariant: an event is parked in the transaction
that removes it from `onramp.waiting` (the model's rule `release_once`).  Events that arrived after the
operator's decision keep waiting and land (`dead_lettered_then`), because the operator has not seen them.  The
arrival of an event is the start of the transaction that lets it wait: `added_at` is that time.  A hold that
cannot be dead-lettered because of an unexpected error waits alone, until the next release.
"""

import logging
from collections.abc import Collection, Mapping

from services.writer.model.targets import Target
from services.writer.postgres.database import Database
from services.writer.postgres.pool import transaction
from services.writer.settle import event_log, holds, waiting_table
from services.writer.settle.holds import KIND_TYPE, DeadLetteredHold, Holds
from services.writer.settle.settlement import Settlement
from services.writer.settle.waiting_table import WaitingTable
from services.writer.waiting import waiting_rows
from shared import failpoints
from shared.errors import DEAD_LETTERED, InfrastructureError, UserError

log = logging.getLogger(__name__)


class DeadLettering:
    """The dead-lettering of waiting events in one database."""

    def __init__(self, database: Database, at_once: int, *, event_lines: int = 0) -> None:
        """`event_lines`: lines about events a second of this process; 0: none."""
        self._database = database
        self._at_once = at_once
        self._event_lines = event_lines

    def run(self, tables: Mapping[WaitingTable, tuple[Target, Collection[str]]]) -> None:
        """Park the dead-lettered events of each hold; then the hold continues as before.

        `tables`: the tables that events wait for, each with the types of these events.  Raises
        `InfrastructureError` when the database fails.
        """
        with transaction(self._database, "driver") as conn:
            dead_lettered = holds.dead_lettered(conn)
        for hold in dead_lettered:
            parked = [
                self._try_to_park(hold, table, target)
                for table, (target, types) in tables.items()
                if (hold.name in types if hold.kind == KIND_TYPE else hold.name == table.destination)
            ]
            if all(n is not None for n in parked):
                self._resume(hold, sum(n or 0 for n in parked))

    def _resume(self, hold: DeadLetteredHold, parked: int) -> None:
        with transaction(self._database, "driver") as conn:
            holds.resume(conn, hold)
        extra = {"database": self._database.name, hold.kind: hold.name, "parked": parked, "by": hold.by}
        log.warning("parked the waiting events that an operator dead-lettered", extra=extra)

    def _try_to_park(self, hold: DeadLetteredHold, table: WaitingTable, target: Target) -> int | None:
        """Return the result of `_park`, or None after an unexpected error."""
        try:
            return self._park(hold, table, target)
        except (InfrastructureError, MemoryError):
            raise
        except Exception:
            extra = {"database": self._database.name, hold.kind: hold.name, "waits_for": table.destination}
            log.exception("dead-lettered events cannot be parked because of an unexpected error", extra=extra)
            return None

    def _park(self, hold: DeadLetteredHold, table: WaitingTable, target: Target) -> int:
        """Park the events that wait for `table` behind `hold`, step by step; return their number."""
        error = UserError(DEAD_LETTERED, f"dead-lettered by {hold.by}: {hold.reason}")
        database, parked, after = self._database, 0, waiting_table.START
        while True:
            with event_log.of_commit(self._event_lines) as pieces, transaction(database, "driver") as conn:
                taken = waiting_table.take_dead_lettered(conn, table, hold, self._at_once, after)
                for part in waiting_table.apart_by_generation(taken):
                    settlement = Settlement(waiting_rows.context(conn, database, part), Holds())
                    settlement.park_all(target, waiting_rows.identified(part), error)
                    settlement.flush()
                    waiting_table.drop(conn, part)
                    pieces.extend(settlement.settled)
                if taken:
                    failpoints.reach("writer.mid_dead_letter")
            parked += sum(int(events.records.num_rows) for events in taken)
            if not waiting_table.is_full(taken, self._at_once):
                return parked
            after = taken[-1].last
