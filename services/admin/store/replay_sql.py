"""A replay job, step by step: mark events, stage them in their databases, and collect the outcomes.

An event is marked (`replaying`, its next attempt) in a transaction of its own.  A later step stages marked
events that their database does not know.  So a kill leaves only marked events, and the next step is the
usual one.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import orjson
from psycopg2.extensions import connection

from services.admin.attempts import Attempt, AttemptState, DatabaseAnswer, Destination, everywhere
from services.admin.store import results_sql, staging_sql
from services.admin.store.staging_sql import COLUMNS, Load, Staging, attempt_of
from services.ops.parked.outcome_sentence import sentence_of
from shared.errors import DATABASE_RETIRED, NOT_CONFIGURED, InfrastructureError, UserError
from shared.postgres import arrays

#: Maximum events that are staged ahead of the writer.
MAX_STAGED: Final = 10_000
_MARKED: Final = f"""
    SELECT {COLUMNS} FROM onramp_admin.events e
    WHERE e.job = %(job)s AND e.state = 'replaying' AND e.stated > %(after)s ORDER BY e.stated
"""  # noqa: S608 - our own words
_OUTSTANDING: Final = "SELECT count(*) FROM onramp_admin.states WHERE job = %s AND state = 'replaying'"
#: The event's state by the writer's outcome.
_PARKED: Final = "parked"
#: Prefix of the outcome of another job's landed attempt.
_EARLIER: Final = "earlier_"
#: Databases that an operator has retired.
Retired = Callable[[], Collection[str]]
_STATES: Final = {
    "landed": "replayed",
    "duplicate": "replayed_duplicate",
    "earlier_landed": "replayed",
    "earlier_duplicate": "replayed_duplicate",
    _PARKED: "open",
    None: "open",
}
#: `attempt`: the landed attempt, if it is an earlier one.
_SETTLE: Final = """
    UPDATE onramp_admin.states s SET state = new.state, failed = new.failed::json, changed_at = now(),
        attempt = coalesce(new.attempt, s.attempt)
    FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::int4[]) new (event, state, failed, attempt)
    WHERE s.event = new.event AND s.job = %s AND s.state = 'replaying'
"""
_TAKE_OVER: Final = """
    UPDATE onramp_admin.states s SET attempt = known.attempt + 1
    FROM unnest(%s::bigint[], %s::int4[]) known (event, attempt)
    WHERE s.event = known.event AND s.job = %s AND s.state = 'replaying'
"""


@dataclass(frozen=True, slots=True)
class Settled:
    """The result of a step: the number of attempts by (outcome, reason), and why it waits."""

    results: Counter[tuple[str, str]] = field(default_factory=Counter)
    waits: str | None = None
    #: Whether more is to be staged at once.
    is_behind: bool = False

    @property
    def failed(self) -> int:
        """Return how many failed again."""
        return sum(n for (outcome, _), n in self.results.items() if outcome == results_sql.FAILED)

    @property
    def replayed(self) -> int:
        """Return how many landed, or were there already."""
        return self.results.total() - self.failed


def settle(
    conn: connection,
    job: int,
    by: Staging,
    databases: Mapping[str, str],
    load: Load,
    *,
    cancelling: bool,
    after: int = 0,
    retired: Retired = frozenset,
) -> Settled:
    """Stage or withdraw marked events, and store the states of events with an outcome.

    `after`: an id; events up to it are skipped.  Events of an unconfigured database are reopened when the
    job is cancelled, and when the database is `retired`.
    """
    results: Counter[tuple[str, str]] = Counter()
    waits: list[str] = []
    is_behind = False

    def ask(where: Destination, attempts: Sequence[Attempt]) -> Sequence[AttemptState]:
        if cancelling:
            return staging_sql.withdraw(where, by, attempts)
        return staging_sql.follow(where, by, attempts, load)

    for asked in everywhere(databases, _marked(conn, job, after), ask):
        found = asked.states
        if asked.error is not None:
            found = _released(asked, asked.error, retired, cancelling=cancelling)
            waits += [asked.error.detail] if len(found) < len(asked.attempts) else []
        is_behind |= not cancelling and any(f.outcome is None and not f.staged for f in found)
        done = [f for f in found if f.outcome is not None or cancelling]
        _give_states(conn, job, done)
        _take_over(conn, job, [f for f in found if f.outcome is None and f.known is not None])
        results.update(_result(f.outcome, f.reason) for f in done if f.outcome is not None)
    results_sql.add(conn, job, results)
    return Settled(results, "; ".join(sorted(waits)) or None, is_behind)


def _released(
    asked: DatabaseAnswer, error: InfrastructureError, retired: Retired, *, cancelling: bool
) -> Sequence[AttemptState]:
    """Return the attempts to release, if their database is retired.

    A database that is only unreachable may still land its attempts: they wait.
    """
    if error.fault is not NOT_CONFIGURED:
        return ()
    if cancelling:
        return [AttemptState(a.id, None, None, staged=False) for a in asked.attempts]
    gone = retired()
    why = UserError(DATABASE_RETIRED, "the database was retired before the replay landed")
    return [
        staging_sql.lost(AttemptState(a.id, None, None, staged=False), why)
        for a in asked.attempts
        if asked.database in gone or any(a.destination.startswith(f"{name}.") for name in gone)
    ]


def _result(outcome: str, reason: str | None) -> tuple[str, str]:
    """Return an attempt's outcome, and the reason if it failed again."""
    if outcome.startswith(_EARLIER):
        return results_sql.LANDED_EARLIER, ""
    if outcome != _PARKED:
        return outcome, ""
    return results_sql.FAILED, sentence_of(orjson.loads(reason or "{}"))


def outstanding(conn: connection, job: int) -> int:
    """Count the job's marked events without an outcome."""
    with conn.cursor() as cur:
        cur.execute(_OUTSTANDING, (job,))
        ((count,),) = cur.fetchall()
        return int(count)


def _marked(conn: connection, job: int, after: int) -> list[Attempt]:
    """Return the marked events: never more than the staging limit."""
    with conn.cursor() as cur:
        cur.execute(_MARKED, {"job": job, "after": after})
        return [attempt_of(row) for row in cur.fetchall()]


def _give_states(conn: connection, job: int, found: Sequence[AttemptState]) -> None:
    if not found:
        return
    ids = arrays.numbers(f.id for f in found)
    states = arrays.texts(_STATES[f.outcome] for f in found)
    reasons = arrays.texts(None if _is_earlier(f) else f.reason for f in found)
    attempts = arrays.texts(str(f.known) if _is_earlier(f) else None for f in found)
    with conn.cursor() as cur:
        cur.execute(_SETTLE, (ids, states, reasons, attempts, job))


def _take_over(conn: connection, job: int, found: Sequence[AttemptState]) -> None:
    """Continue after the highest attempt of another job in the database, whose outcome is not this job's."""
    if not found:
        return
    ids, attempts = arrays.numbers(f.id for f in found), arrays.numbers(f.known or 0 for f in found)
    with conn.cursor() as cur:
        cur.execute(_TAKE_OVER, (ids, attempts, job))


def _is_earlier(found: AttemptState) -> bool:
    return found.outcome is not None and found.outcome.startswith(_EARLIER)
