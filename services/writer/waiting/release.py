"""Redelivers the events that wait behind holds of one database: by table, in order, then ends the hold.

A blocked table is retried with a backoff; a paused event type waits until an operator resumes it.  Events
that an operator has dead-lettered are parked first.
Invariant: events land in the transaction that removes them from `onramp.waiting` (the model's rule
`release_once`), so they land once, however often a release starts again.  A hold ends when no event
waits behind it.  Until then later events queue behind the hold (`hold_locked`, `queue_behind`).
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from psycopg2.extensions import connection

from services.writer.batching.row_rates import RateLimiter
from services.writer.model.routes import Routes
from services.writer.model.targets import Target
from services.writer.persist.row_results import row_error
from services.writer.postgres.database import Database
from services.writer.postgres.pool import transaction
from services.writer.postgres.sqlstates import STATEMENT_TIMEOUT
from services.writer.settle import event_log, holds, waiting_table
from services.writer.settle.holds import Hold, Holds
from services.writer.settle.retry_reasons import BlockedError, SerializationConflictError
from services.writer.settle.settlement import Settlement
from services.writer.settle.waiting_table import WaitingEvents, WaitingKey, WaitingTable
from services.writer.sort.route_lookup import lookup_for
from services.writer.waiting import waiting_rows
from services.writer.waiting.dead_letter import DeadLettering
from shared import failpoints
from shared.errors import InfrastructureError

log = logging.getLogger(__name__)

_AT_ONCE: Final = 2_000
#: Failures that one row may have caused, after which the table is tried row by row.
_TIMEOUTS_BEFORE_ONE_BY_ONE: Final = 2
#: If this many rows fail from the first on and none lands, the table is at fault.  The limit is lower
#: where each failure takes a whole statement timeout.
_MAX_SUSPECTS: Final = 200
_MAX_SLOW: Final = 5


class Release:
    """The redelivery of one database's waiting events."""

    def __init__(
        self,
        database: Database,
        rate_limiter: RateLimiter | None = None,
        at_once: int = _AT_ONCE,
        *,
        event_lines: int = 0,
    ) -> None:
        """`event_lines`: lines about events a second of this process; 0: none."""
        self._database = database
        self._event_lines = event_lines
        self._rate_limiter = rate_limiter or RateLimiter({})
        self._at_once = min(at_once, self._rate_limiter.burst(database.name) or at_once)
        #: Few events are left that can land now: the loop waits for them, so that live traffic takes over.
        self.almost_done = False
        #: The events of the present transaction, to be logged after its commit.
        self._pieces: list[event_log.Piece] = []

    def run(self, routes: Routes) -> list[Hold]:
        """Land the events that can land now and return the remaining holds (blocking).

        Raises `InfrastructureError` when the database fails.
        """
        holds_before, tables = self._read()
        if any(hold.state == holds.STATE_DEAD_LETTERED for hold in holds_before.holding()):
            of_tables = {t: (self._target(t, routes), types) for t, types in tables.items()}
            DeadLettering(self._database, self._at_once, event_lines=self._event_lines).run(of_tables)
            holds_before, tables = self._read()
        paused = holds_before.paused_types()
        if len(holds_before.holding()) == len(paused):
            self.almost_done = False
            return holds_before.holding()
        for table, types in tables.items():
            hold = holds_before.tables.get(table.destination)
            if hold and hold.state == holds.STATE_DEAD_LETTERED:
                continue  # an operator dead-lettered it just now
            if not types <= set(paused):  # else it would read all waiting events and land none
                self._drain_or_skip(table, paused, hold, routes)
        return self._end_holds()

    def _read(self) -> tuple[Holds, Mapping[WaitingTable, frozenset[str]]]:
        with transaction(self._database, "driver") as conn:
            current = holds.peek(conn)
            return current, waiting_table.tables(conn) if current.holding() else {}

    def _drain_or_skip(
        self, table: WaitingTable, paused: Sequence[str], hold: Hold | None, routes: Routes
    ) -> None:
        """Drain a table; after an unexpected error only this table waits on."""
        try:
            self._drain(table, paused, hold, routes)
        except (InfrastructureError, MemoryError):
            raise
        except Exception:
            extra = {"database": self._database.name, "table": table.destination}
            log.exception("waiting events cannot be released because of an unexpected error", extra=extra)

    def _drain(self, table: WaitingTable, paused: Sequence[str], hold: Hold | None, routes: Routes) -> None:
        """Land the events that wait for `table` until none is left or the table is blocked."""
        target = self._target(table, routes)
        try:
            if hold and hold.timeouts >= _TIMEOUTS_BEFORE_ONE_BY_ONE:
                self._one_by_one(table, target, paused)
                hold = None
            self._land_all(table, target, paused)
            self.almost_done = True
        except BlockedError as e:
            self._record_blocked(target, hold, e)
        except SerializationConflictError as e:
            log.info("retrying a release after a serialization conflict", extra={"reason": e.detail})
            if e.blocked.suspicious:
                self._record_blocked(target, hold, e.blocked)

    def _record_blocked(self, target: Target, hold: Hold | None, e: BlockedError) -> None:
        changed_hold = hold or holds.blocked(target, None, suspicious=False)
        with transaction(self._database, "driver") as conn:
            changed = Holds()
            changed.put(changed_hold.blocked_again(e.sqlstate, suspicious=e.suspicious))
            changed.flush(conn)

    def _land_all(self, table: WaitingTable, target: Target, paused: Sequence[str]) -> None:
        """Land in steps, each behind the last, until a step from the start finds no more events."""
        after = waiting_table.START
        while True:
            taken = self._land(table, target, paused, after)
            if waiting_table.is_full(taken, self._at_once):
                self.almost_done = False
                after = taken[-1].last
            elif after == waiting_table.START:
                return
            else:
                after = waiting_table.START

    def _one_by_one(self, table: WaitingTable, target: Target, paused: Sequence[str]) -> None:
        """Find the rows that fail while their neighbours land, and park them with their codes.

        Raises `BlockedError` when none lands: then the table is at fault, except for a single row
        that runs into the statement timeout.
        """
        suspects: list[tuple[WaitingKey, BlockedError]] = []
        landed = False
        with transaction(self._database, "driver") as conn:
            singles = waiting_table.first(conn, table, paused, self._at_once)
        for key in singles:
            try:
                landed |= self._land_one(table, target, key)
            except BlockedError as e:
                suspects.append((key, e))
                if not e.suspicious or (not landed and len(suspects) >= _max_suspects(e)):
                    raise
        if suspects and not landed and (len(singles) > 1 or not _is_slow(suspects[0][1])):
            raise suspects[-1][1]
        for suspect, blocked in suspects:
            self._park(table, target, suspect, blocked.sqlstate)

    def _land_one(self, table: WaitingTable, target: Target, key: WaitingKey) -> bool:
        """Return whether the table took the event; an event that is parked untried does not count."""
        try:
            with self._paid_for() as conn:
                taken = waiting_table.retake(conn, table, key)
                return taken is not None and self._settle(conn, target, [taken]) > 0
        except SerializationConflictError as e:
            raise e.blocked from None

    def _park(self, table: WaitingTable, target: Target, key: WaitingKey, sqlstate: str | None) -> None:
        blocked = "the table takes the other events, and fails repeatedly at this one"
        error = row_error(self._database, target, sqlstate, blocked)
        with event_log.of_commit(self._event_lines) as pieces, transaction(self._database, "driver") as conn:
            if taken := waiting_table.retake(conn, table, key):
                settlement = Settlement(waiting_rows.context(conn, self._database, [taken]), Holds())
                settlement.park_all(target, waiting_rows.identified([taken]), error)
                settlement.flush()
                waiting_table.drop(conn, [taken])
                pieces.extend(settlement.settled)

    def _land(
        self, table: WaitingTable, target: Target, paused: Sequence[str], after: WaitingKey
    ) -> list[WaitingEvents]:
        """Land the first events behind `after` that wait for `table`, and return them."""
        with self._paid_for() as conn:
            taken = waiting_table.take(conn, table, paused, self._at_once, after)
            for part in waiting_table.apart_by_generation(taken):
                self._settle(conn, target, part)
            if taken:
                failpoints.reach("writer.mid_release")
        return taken

    @contextmanager
    def _paid_for(self) -> Iterator[connection]:
        """Open a transaction as soon as the rate limit allows the database more rows."""
        time.sleep(self._rate_limiter.delay(self._database.name))
        with event_log.of_commit(self._event_lines) as pieces, transaction(self._database, "driver") as conn:
            self._pieces = pieces
            yield conn

    def _settle(self, conn: connection, target: Target, taken: Sequence[WaitingEvents]) -> int:
        """Land or park the events; return the number of rows that were sent to the table."""
        rows, rejected = waiting_rows.rows(target, taken)
        self._rate_limiter.consume(self._database.name, rows.num_rows)
        settlement = Settlement(waiting_rows.context(conn, self._database, taken), Holds())
        for table, error in rejected:
            settlement.park_all(target, table, error)
        if rows.num_rows:
            settlement.release(target, rows)
        settlement.flush()
        waiting_table.drop(conn, taken)
        self._pieces += settlement.settled
        failpoints.meet("writer.release", (t.records.column("value") for t in taken))
        return int(rows.num_rows)

    def _target(self, table: WaitingTable, routes: Routes) -> Target:
        """Return the table that the events were sorted to, with its current contract."""
        if table.typed:
            return lookup_for(routes).typed(self._database.name, table.schema, table.table)
        return Target(self._database.name, table.schema, table.table)

    def _end_holds(self) -> list[Hold]:
        """End the holds without waiting events; return the others (`hold_locked`)."""
        try:
            with transaction(self._database, "driver") as conn:
                locked = holds.lock(conn)
                remaining, waiting = locked.holding(), waiting_table.tables(conn)
                # One after the other: for events that wait behind both, the hold of the table must stay.
                for hold in sorted(remaining, key=lambda h: h.kind == holds.KIND_TABLE):
                    if not _is_waited_for(hold, remaining, waiting):
                        holds.end(conn, hold)
                        remaining.remove(hold)
        except InfrastructureError:  # a task has locked them: between two batches none does
            self.almost_done = True
            with transaction(self._database, "driver") as conn:
                return holds.peek(conn).holding()
        self.almost_done = False
        return remaining


def _is_slow(e: BlockedError) -> bool:
    return e.sqlstate == STATEMENT_TIMEOUT


def _max_suspects(e: BlockedError) -> int:
    return _MAX_SLOW if _is_slow(e) else _MAX_SUSPECTS


def _is_waited_for(
    hold: Hold, remaining: Sequence[Hold], waiting: Mapping[WaitingTable, frozenset[str]]
) -> bool:
    """Return whether an event waits behind `hold` alone of `remaining`; True for a paused type's hold."""
    if hold.state == holds.STATE_PAUSED:
        return True
    others = {h.name for h in remaining if h.kind != hold.kind}
    if hold.kind == holds.KIND_TABLE:
        return any(table.destination == hold.name and types - others for table, types in waiting.items())
    return any(hold.name in types and table.destination not in others for table, types in waiting.items())
