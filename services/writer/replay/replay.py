"""Lands the staged attempts of one database: in the order of their keys, one page per transaction.

Invariant: the row, its totals, its row of `onramp.replayed` and the removal of the staged row are one
transaction (the model's rule `one_commit`).  Nothing lands in a table with a hold.  A table that takes no
rows now is skipped until the next run.  It gets no hold, because no live event has failed there.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Final

import pyarrow as pa
from psycopg2.extensions import connection

from services.writer.batching.row_rates import RateLimiter
from services.writer.model.routes import Routes
from services.writer.model.targets import Target
from services.writer.parse.parse import read
from services.writer.persist.row_results import row_error
from services.writer.postgres.database import Database
from services.writer.postgres.pool import transaction
from services.writer.replay import staged_attempts
from services.writer.replay.blame import Suspects
from services.writer.replay.land import land, parked_again
from services.writer.replay.staged_attempts import START, Key, ParkedEvent, Staged, Verdict
from services.writer.settle import event_log, holds
from services.writer.settle.retry_reasons import BlockedError, SerializationConflictError
from shared import failpoints
from shared.errors import INTERNAL_PERSIST, InfrastructureError, UserError
from shared.steps import Step

log = logging.getLogger(__name__)

_AT_ONCE: Final = 1_000
#: While live events come they go first: a page is soon over, and for as long as it took none is taken.
_AT_ONCE_BESIDE: Final = 200
_LONGEST_PAUSE: Final = 1.0
#: Of what stays staged.
_WAITS: Final = Verdict("waits")
_Take = Callable[[connection, Collection[str]], list[Staged]]


class Replay:
    """The replays of one database."""

    def __init__(
        self,
        database: Database,
        rate_limiter: RateLimiter | None = None,
        *,
        may_land: Callable[[], bool] = lambda: True,
        live_come: Callable[[], bool] = lambda: False,
        at_once: int = _AT_ONCE,
        event_lines: int = 0,
    ) -> None:
        """`may_land`: asked before each transaction; `live_come`: whether live events come.

        `event_lines`: most lines about events a second.
        """
        self._database = database
        self._rate_limiter = rate_limiter or RateLimiter({})
        self._may_land = may_land
        self._live_come = live_come
        self._event_lines = event_lines
        self._at_once = min(at_once, self._rate_limiter.burst(database.name) or at_once)
        self._routes = Routes(database.name)
        #: How many attempts of this run ended how.
        self._ended: Counter[str] = Counter()
        #: Tables that take no rows in this run.
        self._passed_over: set[str] = set()
        #: What the last transaction has taken.
        self._page: Sequence[Staged] = ()

    def run(self, routes: Routes, between: Callable[[], None] = lambda: None) -> Counter[str]:
        """Land the staged attempts that can land now; return the ended ones by outcome (blocking).

        `between` is called after each page.  Raises `InfrastructureError` when the database fails.
        """
        self._routes, self._ended, self._passed_over = routes, Counter(), set()
        after: Key | None = START
        while after is not None and self._may_land():
            began = time.monotonic()
            after = self._step(after)
            between()
            if after is not None and self._live_come():
                time.sleep(min(time.monotonic() - began, _LONGEST_PAUSE))
        return self._ended

    def _step(self, after: Key) -> Key | None:
        """Land a page behind `after`; return its last key, `after` to try again, None at the end."""
        most = min(self._at_once, _AT_ONCE_BESIDE) if self._live_come() else self._at_once
        try:
            self._land(lambda conn, held: staged_attempts.take(conn, self._database.name, held, after, most))
        except SerializationConflictError as e:
            return self._pass_over(str(e.blocked.target), after)
        except BlockedError as e:
            if not e.suspicious:
                return self._pass_over(str(e.target), after)
            self._land_one_by_one(self._page)
        except (InfrastructureError, MemoryError):
            raise
        except Exception:
            log.exception("replayed events fail for a reason that the writer does not know")
            self._land_one_by_one(self._page)
        return self._page[-1].event.key if self._page else None

    def _pass_over(self, table: str, after: Key) -> Key | None:
        if table in self._passed_over:  # it goes by another name here: not again in this run
            return None
        self._passed_over.add(table)
        return after

    def _land(self, take: _Take) -> Counter[str]:
        """Land the rows of `take` in one transaction; return the ended attempts by outcome."""
        self._page = ()
        time.sleep(self._rate_limiter.delay(self._database.name))
        with event_log.of_commit(self._event_lines) as said, transaction(self._database, "driver") as conn:
            held = {*holds.peek(conn).tables, *self._passed_over}
            self._page = take(conn, held)
            fresh = [s for s in self._page if not (s.is_known or s.is_old)]
            self._rate_limiter.consume(self._database.name, len(fresh))

            def judge(target: Target) -> Verdict | None:
                """Let what was refused wait for a table that takes no rows: sorting alone tells which."""
                return _WAITS if str(target) in held else None

            events = [s.event for s in fresh]
            verdicts = land(conn, self._database, events, self._routes, judge=judge, said=said)
            waiting = [s for s in fresh if verdicts[s.event.key] is _WAITS]
            fresh = [s for s in fresh if s not in waiting] if waiting else fresh
            staged_attempts.record(conn, ((s, verdicts[s.event.key]) for s in fresh))
            staged_attempts.remove(conn, [s for s in self._page if s not in waiting])
            if self._page:
                failpoints.reach("writer.mid_replay")
        if self._page:
            failpoints.reach("writer.after_replay")
        ended = Counter(verdicts[s.event.key].outcome for s in fresh)
        self._ended += ended
        return ended

    def _land_one_by_one(self, page: Sequence[Staged]) -> None:
        """Land each row of a failed page by itself; park the rows that fail where others land."""
        suspects = Suspects(self._database.name)
        for row in page:
            if suspects.table_of(row) not in self._passed_over and self._may_land():
                self._land_one(row, suspects)
                self._passed_over |= suspects.tables_at_fault()
        for row, error in suspects.rows_at_fault():
            self._park(row, error)
        self._passed_over |= suspects.tables_at_fault(at_end=True)
        self._page = page

    def _land_one(self, row: Staged, suspects: Suspects) -> None:
        try:
            if self._land(lambda conn, _: staged_attempts.retake(conn, row.event.key)):
                suspects.passed(row)
        except SerializationConflictError as e:
            self._passed_over.add(str(e.blocked.target))
        except BlockedError as e:
            if e.suspicious:
                reason = "it fails at this event, and takes others"
                suspects.failed(row, row_error(self._database, e.target, e.sqlstate, reason))
            else:
                self._passed_over.add(str(e.target))
        except (InfrastructureError, MemoryError):
            raise
        except Exception as e:  # noqa: BLE001 - logged when it failed with others
            suspects.failed(row, UserError(INTERNAL_PERSIST, f"{type(e).__name__}, where others passed"))

    def _park(self, row: Staged, error: UserError) -> None:
        event = row.event
        verdict: Verdict = parked_again(error, event.partition, event.offset, event.destination)
        parked = event_log.Parked([(event.partition, event.offset, _id_of(event), error)], step=Step.REPLAY)
        with event_log.of_commit(self._event_lines) as said, transaction(self._database, "driver") as conn:
            taken = staged_attempts.retake(conn, event.key)
            staged_attempts.record(conn, ((s, verdict) for s in taken if not s.is_known))
            staged_attempts.remove(conn, taken)
            said.extend([parked] if taken else [])
        self._ended[verdict.outcome] += len(taken)


def _id_of(event: ParkedEvent) -> str | None:
    """Return the event's own id, or None if it cannot be parsed."""
    found: str | None = read(pa.array([event.value], pa.binary())).columns.column("id")[0].as_py()
    return found
