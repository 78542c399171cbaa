"""Rehearses replays: lands rows of `onramp.rehearsals` as replays do, rolls back, and writes the outcomes.

Only the outcomes are committed.  A table with its owner's triggers is rehearsed only on request, because
triggers may have effects outside the transaction.  A missing landing table is not created.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

import orjson
from psycopg2.extensions import connection
from psycopg2.extras import execute_values

from services.writer.batching.row_rates import RateLimiter
from services.writer.model.routes import Routes
from services.writer.model.targets import Target
from services.writer.postgres import rows_by_bytes
from services.writer.postgres.database import Database
from services.writer.postgres.pool import transaction
from services.writer.replay.land import LANDED, land
from services.writer.replay.preview import answer_previews
from services.writer.replay.rehearsed_rows import rows_of
from services.writer.replay.staged_attempts import (
    EVENT,
    KEY,
    MAX_BYTES,
    AttemptOutcome,
    Key,
    ParkedEvent,
    UnstorableError,
    storing,
)
from services.writer.settle import holds
from services.writer.settle.retry_reasons import BlockedError, SerializationConflictError
from shared.errors import InfrastructureError

log = logging.getLogger(__name__)

UNKNOWN: Final = "unknown"
TRIGGERS: Final = "triggers"
_AT_ONCE: Final = 500
#: Short timeouts, because live events may wait for a rehearsal's locks.
_SHORT: Final = "SET LOCAL statement_timeout = '2s'; SET LOCAL lock_timeout = '200ms'"
#: Rows that no job has fetched, and rows that a restored dump brought back.
_DROP_OLD: Final = "DELETE FROM onramp.rehearsals WHERE staged_at < now() - interval '1 hour'"
#: Takes rows of one job at a time, because two jobs may rehearse the same event.
_TAKE: Final = rows_by_bytes.bytes_of(
    f"""
    SELECT {EVENT}, job, with_triggers, shows_row FROM onramp.rehearsals
    WHERE outcome IS NULL AND (job, with_triggers) =
        (SELECT job, with_triggers FROM onramp.rehearsals WHERE outcome IS NULL LIMIT 1)
    ORDER BY {KEY} LIMIT %s""",  # noqa: S608 - our own words
    KEY,
)
_ANSWER: Final = """
    UPDATE onramp.rehearsals r SET outcome = a.outcome, reason = a.reason::jsonb, row_text = a.row_text
    FROM (VALUES %%s) AS a (topic_id, partition, "offset", destination, outcome, reason, row_text)
    WHERE r.job = %s AND (r.topic_id, r.partition, r."offset", r.destination)
        = (a.topic_id::uuid, a.partition, a."offset", a.destination)
"""
_TABLE: Final = """
    SELECT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s
"""


class _RolledBackError(Exception):
    """Ends a rehearsal's transaction."""


@dataclass(frozen=True, slots=True)
class _Page:
    """Events that one job rehearses."""

    job: str
    with_triggers: bool
    events: Sequence[ParkedEvent]
    #: Events whose rows are requested.
    shown: Sequence[ParkedEvent]


class Rehearsal:
    """The rehearsals of one database."""

    def __init__(
        self, database: Database, rate_limiter: RateLimiter | None = None, *, may_land: Callable[[], bool]
    ) -> None:
        """`may_land`: called before each page; False ends the run."""
        self._database = database
        self._rate_limiter = rate_limiter or RateLimiter({})
        self._may_land = may_land
        self._at_once = min(_AT_ONCE, self._rate_limiter.burst(database.name) or _AT_ONCE)

    def run(self, routes: Routes, pages: int | None = None) -> int:
        """Rehearse all staged rows, or `pages` pages; return the number of answers (blocking).

        Previews are answered first, because an operator waits for them.

        Raises `InfrastructureError` when the database fails.
        """
        answered = answer_previews(self._database) if self._may_land() else 0
        for _ in count() if pages is None else range(pages):
            if not self._may_land() or (page := self._take()) is None:
                break
            outcomes = self._rehearse(page, routes)
            landing = [each for each in page.shown if outcomes[each.key].kind == LANDED]
            rows = rows_of(self._database, landing, routes)
            try:
                self._answer(page, outcomes, rows)
            except UnstorableError as e:
                self._answer(page, {key: _unknown(f"its outcome cannot be stored: {e}") for key in outcomes})
            answered += len(outcomes)
        return answered

    def _answer(
        self, page: _Page, outcomes: dict[Key, AttemptOutcome], rows: Mapping[Key, str] | None = None
    ) -> None:
        with transaction(self._database, "driver") as conn:
            _answer(conn, page.job, outcomes, rows or {})

    def _take(self) -> _Page | None:
        with transaction(self._database, "driver") as conn, conn.cursor() as cursor:
            cursor.execute(_DROP_OLD)
            cursor.execute(_TAKE, (self._at_once, MAX_BYTES))
            rows = cursor.fetchall()
        if not rows:
            return None
        *_, job, with_triggers, _, _ = rows[0]
        events = [(ParkedEvent.of(row[:9]), row[11]) for row in rows]
        shown = [event for event, shows_row in events if shows_row]
        return _Page(job, with_triggers, [event for event, _ in events], shown)

    def _rehearse(self, page: _Page, routes: Routes) -> dict[Key, AttemptOutcome]:
        """Return an outcome for each event; a table that takes no rows now is tried once."""
        blocked: dict[str, str | None] = {}
        while True:
            try:
                return self._roll_back(page, routes, blocked)
            except BlockedError as e:
                error = e
            except SerializationConflictError as e:
                error = e.blocked
            except (InfrastructureError, MemoryError):
                raise
            except Exception as e:
                log.exception("a rehearsal failed because of an unexpected error")
                return {event.key: _unknown(type(e).__name__) for event in page.events}
            if str(error.target) in blocked:
                return {event.key: _unknown("its table takes no rows now") for event in page.events}
            blocked[str(error.target)] = error.sqlstate

    def _roll_back(
        self, page: _Page, routes: Routes, blocked: dict[str, str | None]
    ) -> dict[Key, AttemptOutcome]:
        """Land the page, roll back, and return the outcomes."""
        outcomes: dict[Key, AttemptOutcome] = {}
        time.sleep(self._rate_limiter.delay(self._database.name))
        self._rate_limiter.consume(self._database.name, len(page.events))
        try:
            with transaction(self._database, "driver") as conn:
                with conn.cursor() as cursor:
                    cursor.execute(_SHORT)
                waiting_tables = holds.peek(conn).tables

                def precheck(target: Target) -> AttemptOutcome | None:
                    if str(target) in blocked or str(target) in waiting_tables:
                        return _unknown(f"table {target} takes no rows now", blocked.get(str(target)))
                    return _untried(conn, target, with_triggers=page.with_triggers)

                outcomes = land(conn, self._database, page.events, routes, precheck=precheck)
                raise _RolledBackError  # noqa: TRY301 - it ends the transaction
        except _RolledBackError:
            return outcomes


def _untried(conn: connection, target: Target, *, with_triggers: bool) -> AttemptOutcome | None:
    """Return the outcome of rows that cannot be tried in `target` without side effects, or None."""
    with conn.cursor() as cursor:
        cursor.execute(_TABLE, (target.schema, target.table))
        row = cursor.fetchone()
    if row is None:
        return None if target.typed else _unknown(f"table {target} is not there yet: a replay makes it")
    if row == (True,) and not with_triggers:
        return AttemptOutcome(TRIGGERS, orjson.dumps({"detail": f"table {target} has triggers of its owner"}))
    return None


def _unknown(detail: str, sqlstate: str | None = None) -> AttemptOutcome:
    return AttemptOutcome(UNKNOWN, orjson.dumps({"detail": detail, "sqlstate": sqlstate}))


def _answer(
    conn: connection, job: str, outcomes: dict[Key, AttemptOutcome], shown: Mapping[Key, str]
) -> None:
    rows = [
        (*key, outcome.kind, None if outcome.reason is None else outcome.reason.decode(), shown.get(key))
        for key, outcome in outcomes.items()
    ]
    with storing(), conn.cursor() as cursor:
        execute_values(cursor, cursor.mogrify(_ANSWER, (job,)).decode(), rows, page_size=len(rows))
