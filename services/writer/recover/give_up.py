"""Parks what a person has given up: what waited behind a hold when he said so, in order, with his reason.

The table is not asked, so a lock on it is in nobody's way.  Invariant: an event is parked in the transaction
that removes it from `onramp.waiting` (the model's rule `release_once`), and what came after the person's
word waits on and lands (`given_up_then`): nobody has seen it.
"""

import logging
from collections.abc import Callable, Iterable

from services.writer.model.targets import Target
from services.writer.postgres.database import Database
from services.writer.postgres.pool import transaction
from services.writer.recover import waiting_rows
from services.writer.settle import holds, waiting_table
from services.writer.settle.holds import KIND_TYPE, GivenUp, Holds
from services.writer.settle.settlement import Settlement
from services.writer.settle.waiting_table import WaitingTable
from shared import failpoints
from shared.errors import GIVEN_UP, UserError

log = logging.getLogger(__name__)


def give_up(
    database: Database,
    tables: Iterable[WaitingTable],
    target_of: Callable[[WaitingTable], Target],
    at_once: int,
) -> None:
    """Park what is given up of each hold of `database`, of all `tables`; the hold goes on without it."""
    with transaction(database, "driver") as conn:
        given_up = holds.given_up(conn)
    for hold in given_up:
        concerned = [t for t in tables if hold.kind == KIND_TYPE or t.destination == hold.name]
        parked = sum(_park(database, hold, table, target_of(table), at_once) for table in concerned)
        with transaction(database, "driver") as conn:
            holds.go_on(conn, hold)
        log.warning(
            "what waited was given up and is parked",
            extra={"database": database.name, hold.kind: hold.name, "parked": parked, "by": hold.by},
        )


def _park(database: Database, hold: GivenUp, table: WaitingTable, target: Target, at_once: int) -> int:
    """Park what waits for `table` behind `hold`, step by step; returns how many events."""
    error = UserError(GIVEN_UP, f"given up by {hold.by}: {hold.reason}")
    parked, after = 0, waiting_table.START
    while True:
        with transaction(database, "driver") as conn:
            taken = waiting_table.take_given_up(conn, table, hold, at_once, after)
            for part in waiting_table.apart_by_incarnation(taken):
                settlement = Settlement(waiting_rows.context(conn, database, part), Holds())
                settlement.park_all(target, waiting_rows.origins(part), error)
                settlement.flush()
                waiting_table.drop(conn, part)
            if taken:
                failpoints.reach("writer.mid_give_up")
        parked += sum(int(events.records.num_rows) for events in taken)
        if not waiting_table.is_full(taken, at_once):
            return parked
        after = taken[-1].last
