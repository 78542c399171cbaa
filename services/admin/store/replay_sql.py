"""SQL of replays: marked events, their outcomes, and a replay's progress.

`services.admin.jobs.replay` has the flow.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from psycopg2.extensions import connection

from services.admin.attempts import Attempt, AttemptState
from services.admin.store.staging_sql import COLUMNS, attempt_of
from shared.postgres import arrays
from shared.transform_replay import DROPPED, EMITTED

_MARKED: Final = f"""
    SELECT {COLUMNS} FROM onramp_admin.events e
    WHERE e.job = %(job)s AND e.state = 'replaying' AND e.stated > %(after)s ORDER BY e.stated
"""  # noqa: S608 - our own words
_OUTSTANDING: Final = "SELECT count(*) FROM onramp_admin.states WHERE job = %s AND state = 'replaying'"
#: The outcome of an attempt that failed.
PARKED: Final = "parked"
#: Prefix of the outcome of another job's landed attempt.
EARLIER: Final = "earlier_"
#: The event's state by the outcome of the writer or the transform.
_STATES: Final = {
    "landed": "replayed",
    "duplicate": "replayed_duplicate",
    "earlier_landed": "replayed",
    "earlier_duplicate": "replayed_duplicate",
    EMITTED: "replayed",
    DROPPED: "replayed",
    PARKED: "open",
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
_PROGRESS: Final = """
    UPDATE onramp_admin.jobs SET done_to = %(done_to)s, changed = changed + %(replayed)s,
        failed = failed + %(failed)s, walked = %(walked)s, waits = %(waits)s, state = %(state)s,
        finished_at = CASE WHEN %(state)s IN ('cancelled', 'done') THEN now() END,
        next_at = now() + CASE WHEN %(is_busy)s
            THEN coalesce(%(inspected)s / rate::float8, 0) ELSE %(pause)s END * interval '1 second'
    WHERE id = %(job)s
"""


def marked_attempts(conn: connection, job: int, after: int) -> list[Attempt]:
    """Return the job's marked events after the id `after`: never more than are staged ahead."""
    with conn.cursor() as cur:
        cur.execute(_MARKED, {"job": job, "after": after})
        return [attempt_of(row) for row in cur.fetchall()]


def count_outstanding(conn: connection, job: int) -> int:
    """Count the job's marked events without an outcome."""
    with conn.cursor() as cur:
        cur.execute(_OUTSTANDING, (job,))
        ((count,),) = cur.fetchall()
        return int(count)


def store_outcomes(conn: connection, job: int, found: Sequence[AttemptState]) -> None:
    """Store the states of events whose attempts have an outcome, or were withdrawn."""
    if not found:
        return
    ids = arrays.numbers(f.id for f in found)
    states = arrays.texts(_STATES[f.outcome] for f in found)
    reasons = arrays.texts(None if _is_earlier(f) else f.reason for f in found)
    attempts = arrays.texts(str(f.known) if _is_earlier(f) else None for f in found)
    with conn.cursor() as cur:
        cur.execute(_SETTLE, (ids, states, reasons, attempts, job))


def raise_attempts(conn: connection, job: int, found: Sequence[AttemptState]) -> None:
    """Continue after the highest attempt of another job in the database, whose outcome is not this job's."""
    if not found:
        return
    ids, attempts = arrays.numbers(f.id for f in found), arrays.numbers(f.known or 0 for f in found)
    with conn.cursor() as cur:
        cur.execute(_TAKE_OVER, (ids, attempts, job))


def store_progress(conn: connection, progress: Mapping[str, Any]) -> None:
    """Store the progress of a replay, and the time of its next step."""
    with conn.cursor() as cur:
        cur.execute(_PROGRESS, progress)


def _is_earlier(found: AttemptState) -> bool:
    return found.outcome is not None and found.outcome.startswith(EARLIER)
