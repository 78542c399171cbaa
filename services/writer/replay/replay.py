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
from services.writer.persist.row_results import row_error
from services.writer.postgres.database import Database
from services.writer.postgres.pool import transaction
from services.writer.replay import staged_attempts
from services.writer.replay.blame import Suspects
from services.writer.replay.land import land, parked_again
from services.writer.replay.staged_attempts import START, AttemptOutcome, Key, ParkedEvent, Staged
from services.writer.settle import event_log, holds
from services.writer.settle.retry_reasons import BlockedError, SerializationConflictError
from shared import failpoints
from shared.errors import INTERNAL_PERSIST, InfrastructureError, UserError
from shared.parse.parse import read
from shared.path_steps import Step

log = logging.getLogger(__name__)

_AT_ONCE: Final = 1_000
#: Page size during live traffic, which has priority: after each page the replay pauses for its duration.
_AT_ONCE_DURING_LIVE: Final = 200
_MAX_PAUSE_SECONDS: Final = 1.0
#: The outcome of an attempt that stays staged.
_WAITS: Final = AttemptOutcome("waits")
_Take = Callable[[connection, Collection[str]], list[Staged]]


class Replay:
    """The replays of one database."""

    def __init__(
        self,
        database: Database,
        rate_limiter: RateLimiter | None = None,
        *,
        may_land: Callable[[], bool] = lambda: True,
        is_live: Callable[[], bool] = lambda: False,
        at_once: int = _AT_ONCE,
        event_lines: int = 0,
    ) -> None:
        """`may_land`: called before each transaction; `is_live`: returns whether live events are arriving.

        `event_lines`: maximum lines about events per second.
        """
        self._database = database
        self._rate_limiter = rate_limiter or RateLimiter({})
        self._may_land = may_land
        self._is_live = is_live
        self._event_lines = event_lines
        self._at_once = min(at_once, self._rate_limiter.burst(database.name) or at_once)
        self._routes = Routes(database.name)
        #: The ended attempts of this run, by outcome.
        self._ended: Counter[str] = Counter()
        #: Tables that take no rows in this run.
        self._skipped: set[str] = set()
        #: The rows of the last transaction.
        self._page: Sequence[Staged] = ()

    def run(self, routes: Routes, between: Callable[[], None] = lambda: None) -> Counter[str]:
        """Land the staged attempts that can land now; return the ended ones by outcome (blocking).

        `between` is called after each page.  Raises `InfrastructureError` when the database fails.
        """
        self._routes, self._ended, self._skipped = routes, Counter(), set()
        after: Key | None = START
        while after is not None and self._may_land():
            began = time.monotonic()
            after = self._step(after)
            between()
            if after is not None and self._is_live():
                time.sleep(min(time.monotonic() - began, _MAX_PAUSE_SECONDS))
        return self._ended

    def _step(self, after: Key) -> Key | None:
        """Land a page behind `after`; return its last key, `after` to try again, None at the end."""
        limit = min(self._at_once, _AT_ONCE_DURING_LIVE) if self._is_live() else self._at_once
        try:
            self._land(lambda conn, held: staged_attempts.take(conn, self._database.name, held, after, limit))
        except SerializationConflictError as e:
            return self._skip(str(e.blocked.target), after)
        except BlockedError as e:
            if not e.suspicious:
                return self._skip(str(e.target), after)
            self._land_one_by_one(self._page)
        except (InfrastructureError, MemoryError):
            raise
        except Exception:
            log.exception("replayed events failed because of an unexpected error")
            self._land_one_by_one(self._page)
        return self._page[-1].event.key if self._page else None

    def _skip(self, table: str, after: Key) -> Key | None:
        if table in self._skipped:  # the staged rows use another name: end this run
            return None
        self._skipped.add(table)
        return after

    def _land(self, take: _Take) -> Counter[str]:
        """Land the rows of `take` in one transaction; return the ended attempts by outcome."""
        self._page = ()
        time.sleep(self._rate_limiter.delay(self._database.name))
        with event_log.of_commit(self._event_lines) as logged, transaction(self._database, "driver") as conn:
            held = {*holds.peek(conn).tables, *self._skipped}
            self._page = take(conn, held)
            fresh = [s for s in self._page if not (s.is_known or s.is_old)]
            self._rate_limiter.consume(self._database.name, len(fresh))

            def precheck(target: Target) -> AttemptOutcome | None:
                """Return `_WAITS` for refused events whose table, found by sorting, takes no rows now."""
                return _WAITS if str(target) in held else None

            events = [s.event for s in fresh]
            outcomes = land(conn, self._database, events, self._routes, precheck=precheck, logged=logged)
            waiting = [s for s in fresh if outcomes[s.event.key] is _WAITS]
            fresh = [s for s in fresh if s not in waiting] if waiting else fresh
            staged_attempts.record(conn, ((s, outcomes[s.event.key]) for s in fresh))
            staged_attempts.remove(conn, [s for s in self._page if s not in waiting])
            if self._page:
                failpoints.reach("writer.mid_replay")
        if self._page:
            failpoints.reach("writer.after_replay")
        ended = Counter(outcomes[s.event.key].kind for s in fresh)
        self._ended += ended
        return ended

    def _land_one_by_one(self, page: Sequence[Staged]) -> None:
        """Land each row of a failed page by itself; park the rows that fail where others land."""
        suspects = Suspects(self._database.name)
        for row in page:
            if suspects.table_of(row) not in self._skipped and self._may_land():
                self._land_one(row, suspects)
                self._skipped |= suspects.tables_at_fault()
        for row, error in suspects.rows_at_fault():
            self._park(row, error)
        self._skipped |= suspects.tables_at_fault(at_end=True)
        self._page = page

    def _land_one(self, row: Staged, suspects: Suspects) -> None:
        try:
            if self._land(lambda conn, _: staged_attempts.retake(conn, row.event.key)):
                suspects.passed(row)
        except SerializationConflictError as e:
            self._skipped.add(str(e.blocked.target))
        except BlockedError as e:
            if e.suspicious:
                reason = "the table fails at this event, and takes others"
                suspects.failed(row, row_error(self._database, e.target, e.sqlstate, reason))
            else:
                self._skipped.add(str(e.target))
        except (InfrastructureError, MemoryError):
            raise
        except Exception as e:  # noqa: BLE001 - logged when it failed with others
            suspects.failed(row, UserError(INTERNAL_PERSIST, f"{type(e).__name__}, where others passed"))

    def _park(self, row: Staged, error: UserError) -> None:
        event = row.event
        outcome: AttemptOutcome = parked_again(error, event.partition, event.offset, event.destination)
        parked = event_log.Parked([(event.partition, event.offset, _id_of(event), error)], step=Step.REPLAY)
        with event_log.of_commit(self._event_lines) as logged, transaction(self._database, "driver") as conn:
            taken = staged_attempts.retake(conn, event.key)
            staged_attempts.record(conn, ((s, outcome) for s in taken if not s.is_known))
            staged_attempts.remove(conn, taken)
            logged.extend([parked] if taken else [])
        self._ended[outcome.kind] += len(taken)


def _id_of(event: ParkedEvent) -> str | None:
    """Return the event's own id, or None if it cannot be parsed."""
    event_id: str | None = read(pa.array([event.value], pa.binary())).columns.column("id")[0].as_py()
    return event_id
