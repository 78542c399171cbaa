"""Parks what a person has given up: what waited behind a hold when he said so, in order, with his reason.

The table is not asked, so a lock on it is in nobody's way.  Invariant: an event is parked in the transaction
that removes it from `onramp.waiting` (the model's rule `release_once`), and what came after the person's
word waits on and lands (`given_up_then`): nobody has seen it.  An event comes, as far as this is concerned,
when the transaction that lets it wait begins: `kept_at` is that moment.  A hold that cannot be given up for a
reason that nobody foresaw waits alone, and is tried again with the next release.
"""

import logging
from collections.abc import Collection, Mapping

from services.writer.model.targets import Target
from services.writer.postgres.database import Database
from services.writer.postgres.pool import transaction
from services.writer.settle import event_log, holds, waiting_table
from services.writer.settle.holds import KIND_TYPE, GivenUp, Holds
from services.writer.settle.settlement import Settlement
from services.writer.settle.waiting_table import WaitingTable
from services.writer.waiting import waiting_rows
from shared import failpoints
from shared.errors import DEAD_LETTERED, InfrastructureError, UserError

log = logging.getLogger(__name__)


class GiveUp:
    """The giving up of what waits in one database."""

    def __init__(self, database: Database, at_once: int, *, event_lines: int = 0) -> None:
        """`event_lines`: lines about events a second of this process; 0: none."""
        self._database = database
        self._at_once = at_once
        self._event_lines = event_lines

    def run(self, tables: Mapping[WaitingTable, tuple[Target, Collection[str]]]) -> None:
        """Park what is given up of each hold; the hold goes on without it.

        `tables`: those that events wait for, each with the types of these events.  Raises
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
                self._go_on(hold, sum(n or 0 for n in parked))

    def _go_on(self, hold: GivenUp, parked: int) -> None:
        with transaction(self._database, "driver") as conn:
            holds.go_on(conn, hold)
        extra = {"database": self._database.name, hold.kind: hold.name, "parked": parked, "by": hold.by}
        log.warning("what waited was given up and is parked", extra=extra)

    def _try_to_park(self, hold: GivenUp, table: WaitingTable, target: Target) -> int | None:
        """`_park`; None when it failed for a reason that nobody foresaw."""
        try:
            return self._park(hold, table, target)
        except (InfrastructureError, MemoryError):
            raise
        except Exception:
            extra = {"database": self._database.name, hold.kind: hold.name, "waits_for": table.destination}
            log.exception("what was given up cannot be parked, for a reason that nobody foresaw", extra=extra)
            return None

    def _park(self, hold: GivenUp, table: WaitingTable, target: Target) -> int:
        """Park what waits for `table` behind `hold`, step by step; returns how many events."""
        error = UserError(DEAD_LETTERED, f"given up by {hold.by}: {hold.reason}")
        database, parked, after = self._database, 0, waiting_table.START
        while True:
            with event_log.of_commit(self._event_lines) as said, transaction(database, "driver") as conn:
                taken = waiting_table.take_given_up(conn, table, hold, self._at_once, after)
                for part in waiting_table.apart_by_incarnation(taken):
                    settlement = Settlement(waiting_rows.context(conn, database, part), Holds())
                    settlement.park_all(target, waiting_rows.identified(part), error)
                    settlement.flush()
                    waiting_table.drop(conn, part)
                    said.extend(settlement.settled)
                if taken:
                    failpoints.reach("writer.mid_give_up")
            parked += sum(int(events.records.num_rows) for events in taken)
            if not waiting_table.is_full(taken, self._at_once):
                return parked
            after = taken[-1].last
