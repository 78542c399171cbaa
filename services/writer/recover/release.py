"""Releases the events that wait behind holds of one database: by table, in order, then ends the hold.

A blocked table is tried again and again; a paused event type waits for a person, who resumes
it.  Each part lands in one transaction with its removal from `onramp.waiting`, so whoever
releases it, and however often it is begun, it lands once.  A hold ends when nothing waits
behind it, and while it is there later events queue behind.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
from psycopg2.extensions import connection

from services.writer.model.offsets import Partition
from services.writer.model.records import PartitionSlice
from services.writer.model.routes import Routes
from services.writer.model.targets import Target
from services.writer.parse.parse import read
from services.writer.persist import landing
from services.writer.persist.row_errors import refusal
from services.writer.plan.row_rates import RateLimiter
from services.writer.postgres.database import Database
from services.writer.postgres.pool import transaction
from services.writer.postgres.sqlstates import STATEMENT_TIMEOUT
from services.writer.settle import holds, waiting_table
from services.writer.settle.holds import Hold, Holds
from services.writer.settle.pause_policy import PausePolicy
from services.writer.settle.settlement import BlockedError, SerializationConflictError, Settlement, Work
from services.writer.settle.strays import places_of
from services.writer.settle.waiting_table import At, Place, Taken
from services.writer.sort.route_lookup import routing_of
from shared import failpoints
from shared.errors import InfrastructureError, UserError

log = logging.getLogger(__name__)

_AT_ONCE: Final = 2_000
#: What failed so often in a way that may be one row's fault is tried row by row.
_PATIENCE: Final = 2
#: So many in a row from the first on, and none that lands: it is the table.  Time that runs out
#: is paid for with each of them.
_MOST_SUSPECTS: Final = 200
_MOST_SLOW: Final = 5


class Release:
    """The release of one database's waiting events."""

    def __init__(
        self, database: Database, rate_limiter: RateLimiter | None = None, at_once: int = _AT_ONCE
    ) -> None:
        self._database = database
        self._rate_limiter = rate_limiter or RateLimiter({})
        self._at_once = min(at_once, self._rate_limiter.burst(database.name) or at_once)
        #: Little is left of what can land now: worth waiting for, so that live traffic takes over.
        self.nearly = False

    def run(self, routes: Routes) -> list[Hold]:
        """Land what can land now and return the holds that are left (blocking).

        Raises `InfrastructureError` when the database is at fault.
        """
        with transaction(self._database, "driver") as conn:
            before = holds.peek(conn)
            stopped = before.stopped()
            places = waiting_table.places(conn) if before.holding() else []
        if len(before.holding()) == len(stopped):
            self.nearly = False
            return before.holding()
        for place in places:
            if place.typed or place.table not in stopped:  # a landing table has one type
                self._drain_or_pass_over(place, stopped, before.tables.get(place.destination), routes)
        return self._end()

    def _drain_or_pass_over(
        self, place: Place, stopped: Sequence[str], hold: Hold | None, routes: Routes
    ) -> None:
        """`_drain`; a place at which it fails for a reason that nobody foresaw waits alone."""
        try:
            self._drain(place, stopped, hold, routes)
        except (InfrastructureError, MemoryError):
            raise
        except Exception:
            extra = {"database": self._database.name, "table": place.destination}
            log.exception("what waits cannot be released, for a reason that nobody foresaw", extra=extra)

    def _drain(self, place: Place, stopped: Sequence[str], hold: Hold | None, routes: Routes) -> None:
        """Land what waits for `place` until nothing is left or it is blocked."""
        target = self._target(place, routes)
        try:
            if hold and hold.timeouts >= _PATIENCE:
                self._one_by_one(place, target, stopped)
                hold = None
            self._land_all(place, target, stopped)
            self.nearly = True
        except BlockedError as e:
            self._blocked(target, hold, e)
        except SerializationConflictError as e:
            log.info("a release lost a race and is tried again", extra={"reason": e.detail})
            if e.blocked.suspicious:
                self._blocked(target, hold, e.blocked)

    def _blocked(self, target: Target, hold: Hold | None, e: BlockedError) -> None:
        again = hold or holds.blocked(target, None, suspicious=False)
        with transaction(self._database, "driver") as conn:
            changed = Holds()
            changed.put(again.blocked_again(e.sqlstate, suspicious=e.suspicious))
            changed.keep(conn)

    def _land_all(self, place: Place, target: Target, stopped: Sequence[str]) -> None:
        """Land in steps, each behind the one before, and look once more for what has come meanwhile."""
        after = waiting_table.BEGIN
        while True:
            taken = self._land(place, target, stopped, after)
            if waiting_table.is_full(taken, self._at_once):
                self.nearly = False
                after = taken[-1].last
            elif after == waiting_table.BEGIN:
                return
            else:
                after = waiting_table.BEGIN

    def _one_by_one(self, place: Place, target: Target, stopped: Sequence[str]) -> None:
        """Find the rows that fail while their neighbours land, and park them with their codes.

        Where none lands it is the table, but for one that is alone and runs out of time.
        Raises `BlockedError` then.
        """
        suspects: list[tuple[At, BlockedError]] = []
        landed = False
        with transaction(self._database, "driver") as conn:
            singles = waiting_table.first(conn, place, stopped, self._at_once)
        for one in singles:
            try:
                landed |= self._land_one(place, target, one)
            except BlockedError as e:
                suspects.append((one, e))
                if not e.suspicious or (not landed and len(suspects) >= _most(e)):
                    raise
        if suspects and not landed and (len(singles) > 1 or not _is_slow(suspects[0][1])):
            raise suspects[-1][1]
        for suspect, why in suspects:
            self._park(place, target, suspect, why.sqlstate)

    def _land_one(self, place: Place, target: Target, one: At) -> bool:
        """Whether the table took it; what is parked without a try says nothing of the table."""
        try:
            with self._paid_for() as conn:
                taken = waiting_table.retake(conn, place, one)
                return taken is not None and self._settle(conn, target, [taken]) > 0
        except SerializationConflictError as e:
            raise e.blocked from None

    def _park(self, place: Place, target: Target, one: At, sqlstate: str | None) -> None:
        with transaction(self._database, "driver") as conn:
            if taken := waiting_table.retake(conn, place, one):
                settlement = Settlement(self._work(conn, [taken]), Holds())
                why = "the table takes the others, and fails at this one again and again"
                error = refusal(self._database, target, sqlstate, why)
                settlement.park_all(target, pa.Table.from_batches([places_of(taken.arrivals)]), error)
                settlement.keep()
                waiting_table.drop(conn, [taken])

    def _land(self, place: Place, target: Target, stopped: Sequence[str], after: At) -> list[Taken]:
        """Land the first events behind `after` that wait for `place`, and return them."""
        with self._paid_for() as conn:
            taken = waiting_table.take(conn, place, stopped, self._at_once, after)
            for part in waiting_table.apart_by_incarnation(taken):
                self._settle(conn, target, part)
            if taken:
                failpoints.reach("writer.mid_release")
        return taken

    @contextmanager
    def _paid_for(self) -> Iterator[connection]:
        """A transaction, begun when the database may take rows again."""
        time.sleep(self._rate_limiter.delay(self._database.name))
        with transaction(self._database, "driver") as conn:
            yield conn

    def _settle(self, conn: connection, target: Target, taken: Sequence[Taken]) -> int:
        """Decide about them all; returns how many the table was asked to take."""
        rows, refused = _rows(taken)
        self._rate_limiter.consume(self._database.name, rows.num_rows)
        settlement = Settlement(self._work(conn, taken), Holds())
        for place, error in refused:
            settlement.park_all(target, place, error)
        if rows.num_rows:
            settlement.release(target, rows)
        settlement.keep()
        waiting_table.drop(conn, taken)
        failpoints.meet("writer.release", (t.arrivals.column("value") for t in taken))
        return int(rows.num_rows)

    def _work(self, conn: connection, taken: Sequence[Taken]) -> Work:
        return Work(
            conn, self._database, {t.partition: t.topic_id for t in taken}, _records(taken), PausePolicy()
        )

    def _target(self, place: Place, routes: Routes) -> Target:
        """The table is the one that the events were sorted to; its contract is today's."""
        if place.typed:
            return routing_of(routes).typed(self._database.name, place.schema, place.table)
        return Target(self._database.name, place.schema, place.table)

    def _end(self) -> list[Hold]:
        """End the holds that nothing waits behind; returns the others."""
        try:
            with transaction(self._database, "driver") as conn:
                locked = holds.lock(conn)
                left = locked.holding()
                # One after the other: what waits for both must keep one of the two, the table's.
                for hold in sorted(left, key=lambda h: h.kind == holds.TABLE):
                    if not _is_waited_for(conn, hold, left):
                        holds.end(conn, hold)
                        left.remove(hold)
        except InfrastructureError:  # a task looks at them: between two batches there is none
            self.nearly = True
            with transaction(self._database, "driver") as conn:
                return holds.peek(conn).holding()
        self.nearly = False
        return left


def _is_slow(e: BlockedError) -> bool:
    return e.sqlstate == STATEMENT_TIMEOUT


def _most(e: BlockedError) -> int:
    return _MOST_SLOW if _is_slow(e) else _MOST_SUSPECTS


def _is_waited_for(conn: connection, hold: Hold, left: Sequence[Hold]) -> bool:
    """Whether an event waits behind `hold` alone of those `left`; a person ends a stopped type's."""
    if hold.state == holds.STOPPED:
        return True
    others = [h.name for h in left if h.kind != hold.kind]
    if hold.kind == holds.TABLE:
        return waiting_table.waits_for_table(conn, hold.name, others)
    return waiting_table.waits_of_type(conn, hold.name, others)


def _rows(taken: Sequence[Taken]) -> tuple[pa.Table, list[tuple[pa.Table, UserError]]]:
    """What waited, as the rows of its table; and where those came from that read as no event, and why.

    They did when they were let wait: a later release may read more strictly.
    """
    batches, refused = [], []
    for t in taken:
        events = read(t.arrivals.column("value"))
        for at, error in events.errors.items():
            refused.append((pa.Table.from_batches([places_of(t.arrivals.slice(at, 1))]), error))
        batches.append(_without(events.errors, landing.rows(t.partition, t.arrivals, events.columns)))
    return pa.Table.from_batches(batches), refused


def _without(at: Collection[int], rows: pa.RecordBatch) -> pa.RecordBatch:
    if not at:
        return rows
    left = [i for i in range(len(rows)) if i not in at]
    return rows.take(pa.array(left, pa.int64()))


def _records(taken: Sequence[Taken]) -> Callable[[Partition, list[int]], pa.Table]:
    def at(partition: Partition, offsets: list[int]) -> pa.Table:
        runs = [PartitionSlice(t.partition, t.arrivals) for t in taken if t.partition == partition]
        return pa.Table.from_batches([run.only(offsets).rows for run in runs])

    return at
