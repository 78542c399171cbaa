"""Rehearses replays: lands rows of `onramp.rehearsals` as replays do, rolls back, and writes the outcomes.

Only the outcomes are committed.  A table with its owner's triggers is rehearsed only on request, because
triggers may have effects outside the transaction.  A missing landing table is not created.
"""

import logging
import time
from collections.abc import Callable, Sequence
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
from services.writer.replay.land import land
from services.writer.replay.staged_attempts import (
    EVENT,
    KEY,
    MAX_BYTES,
    Key,
    ParkedEvent,
    UnstorableError,
    Verdict,
    storing,
)
from services.writer.settle import holds
from services.writer.settle.retry_reasons import BlockedError, SerializationConflictError
from shared.errors import InfrastructureError

log = logging.getLogger(__name__)

UNKNOWN: Final = "unknown"
TRIGGERS: Final = "triggers"
_AT_ONCE: Final = 500
#: Nobody waits for a rehearsal, and live events may wait for what it has locked.
_SHORT: Final = "SET LOCAL statement_timeout = '2s'; SET LOCAL lock_timeout = '200ms'"
#: What nobody has fetched, and what a restored dump revived.
_DROP_OLD: Final = "DELETE FROM onramp.rehearsals WHERE staged_at < now() - interval '1 hour'"
#: Of one job at a time: two may ask about the same event.
_TAKE: Final = rows_by_bytes.bytes_of(
    f"""
    SELECT {EVENT}, job, with_triggers FROM onramp.rehearsals
    WHERE outcome IS NULL AND (job, with_triggers) =
        (SELECT job, with_triggers FROM onramp.rehearsals WHERE outcome IS NULL LIMIT 1)
    ORDER BY {KEY} LIMIT %s""",  # noqa: S608 - our own words
    KEY,
)
_ANSWER: Final = """
    UPDATE onramp.rehearsals r SET outcome = a.outcome, reason = a.reason::jsonb
    FROM (VALUES %%s) AS a (topic_id, partition, "offset", destination, outcome, reason)
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
        """Rehearse all staged rows, or `pages` pages; return the number of outcomes written (blocking).

        Raises `InfrastructureError` when the database fails.
        """
        answered = 0
        for _ in count() if pages is None else range(pages):
            if not self._may_land() or (page := self._take()) is None:
                break
            verdicts = self._rehearse(page, routes)
            try:
                self._answer(page, verdicts)
            except UnstorableError as e:
                self._answer(page, {key: _unknown(f"its verdict cannot be stored: {e}") for key in verdicts})
            answered += len(verdicts)
        return answered

    def _answer(self, page: _Page, verdicts: dict[Key, Verdict]) -> None:
        with transaction(self._database, "driver") as conn:
            _answer(conn, page.job, verdicts)

    def _take(self) -> _Page | None:
        with transaction(self._database, "driver") as conn, conn.cursor() as cursor:
            cursor.execute(_DROP_OLD)
            cursor.execute(_TAKE, (self._at_once, MAX_BYTES))
            rows = cursor.fetchall()
        if not rows:
            return None
        *_, job, with_triggers, _ = rows[0]
        return _Page(job, with_triggers, [ParkedEvent.of(row[:9]) for row in rows])

    def _rehearse(self, page: _Page, routes: Routes) -> dict[Key, Verdict]:
        """Return an outcome for each event; a table that takes no rows now is tried once."""
        blocked: dict[str, str | None] = {}
        while True:
            try:
                return self._roll_back(page, routes, blocked)
            except BlockedError as e:
                found = e
            except SerializationConflictError as e:
                found = e.blocked
            except (InfrastructureError, MemoryError):
                raise
            except Exception as e:
                log.exception("a rehearsal fails for a reason that the writer does not know")
                return {event.key: _unknown(type(e).__name__) for event in page.events}
            if str(found.target) in blocked:
                return {event.key: _unknown("its table takes no rows now") for event in page.events}
            blocked[str(found.target)] = found.sqlstate

    def _roll_back(self, page: _Page, routes: Routes, blocked: dict[str, str | None]) -> dict[Key, Verdict]:
        """Land the page, roll back, and return the outcomes."""
        verdicts: dict[Key, Verdict] = {}
        time.sleep(self._rate_limiter.delay(self._database.name))
        self._rate_limiter.consume(self._database.name, len(page.events))
        try:
            with transaction(self._database, "driver") as conn:
                with conn.cursor() as cursor:
                    cursor.execute(_SHORT)
                held = holds.peek(conn).tables

                def judge(target: Target) -> Verdict | None:
                    if str(target) in blocked or str(target) in held:
                        return _unknown(f"table {target} takes no rows now", blocked.get(str(target)))
                    return _untried(conn, target, with_triggers=page.with_triggers)

                verdicts = land(conn, self._database, page.events, routes, judge=judge)
                raise _RolledBackError  # noqa: TRY301 - it ends the transaction
        except _RolledBackError:
            return verdicts


def _untried(conn: connection, target: Target, *, with_triggers: bool) -> Verdict | None:
    """Return the outcome of rows that cannot be tried in `target` without side effects, or None."""
    with conn.cursor() as cursor:
        cursor.execute(_TABLE, (target.schema, target.table))
        found = cursor.fetchone()
    if found is None:
        return None if target.typed else _unknown(f"table {target} is not there yet: a replay makes it")
    if found == (True,) and not with_triggers:
        return Verdict(TRIGGERS, orjson.dumps({"detail": f"table {target} has triggers of its owner"}))
    return None


def _unknown(detail: str, sqlstate: str | None = None) -> Verdict:
    return Verdict(UNKNOWN, orjson.dumps({"detail": detail, "sqlstate": sqlstate}))


def _answer(conn: connection, job: str, verdicts: dict[Key, Verdict]) -> None:
    rows = [
        (*key, verdict.outcome, None if verdict.reason is None else verdict.reason.decode())
        for key, verdict in verdicts.items()
    ]
    with storing(), conn.cursor() as cursor:
        execute_values(cursor, cursor.mogrify(_ANSWER, (job,)).decode(), rows, page_size=len(rows))
