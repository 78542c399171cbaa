"""SQL of jobs: the next due job, a batch of its events, and its progress.

`services.admin.jobs.job_session` has the flow.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import connection

from services.admin.store.jobs_sql import JOB, Job
from services.admin.store.sets_sql import STEPS, condition, rows
from shared.errors import OnrampError

_BATCH: Final = 5_000
#: The next due job; a job that another replica works at is skipped.
_NEXT: Final = f"""{JOB} WHERE state IN ('running', 'cancelling') AND next_at <= now()
    ORDER BY next_at, id LIMIT 1 FOR UPDATE SKIP LOCKED
"""
_CHANGE: Final = """
    WITH batch AS (
        SELECT e.id, {condition} AS fits FROM onramp_admin.events e
        WHERE e.id > %(done_to)s AND e.stated > %(done_to)s AND {set} ORDER BY e.id LIMIT %(most)s
    ), changed AS (
        UPDATE onramp_admin.states s
        SET state = %(to)s, job = %(job)s, attempt = attempt + %(attempts)s, changed_at = now()
        FROM batch WHERE s.event = batch.id AND batch.fits AND s.state = %(from)s RETURNING s.event
    )
    SELECT (SELECT max(id) FROM batch), (SELECT count(*) FROM batch), (SELECT count(*) FROM changed)
"""
_PROGRESS: Final = """
    UPDATE onramp_admin.jobs SET done_to = %(done_to)s, changed = changed + %(changed)s, waits = NULL,
        state = CASE WHEN %(is_last)s THEN 'done' ELSE state END,
        finished_at = CASE WHEN %(is_last)s THEN now() END,
        next_at = now() + coalesce(%(inspected)s / rate::float8, 0) * interval '1 second'
    WHERE id = %(job)s
"""
_POSTPONE: Final = """
    UPDATE onramp_admin.jobs SET waits = coalesce(%(why)s, waits),
        next_at = clock_timestamp() + %(seconds)s * interval '1 second'
    WHERE id = %(job)s AND state IN ('running', 'cancelling') AND coalesce(%(why)s, waits) IS NOT NULL
"""
#: One at a time; any number that nothing else uses.
_SUM_LOCK: Final = 7_203_155_019
#: The transaction that deletes a row adds its count; rows added meanwhile remain for the next run.
_SUM_UP: Final = """
    WITH added AS (
        DELETE FROM onramp_admin.moves WHERE (SELECT pg_try_advisory_xact_lock(%(lock)s)) RETURNING *
    )
    INSERT INTO onramp_admin.moves (group_id, state, events)
    SELECT group_id, state, sum(events) FROM added GROUP BY 1, 2 HAVING sum(events) <> 0
"""


def is_expected(failure: Exception) -> bool:
    """Return whether a step may fail so; any other error is logged with its traceback."""
    return isinstance(failure, psycopg2.Error | OnrampError)


def reason_of(failure: Exception) -> str:
    """Return the cause without a library's message, which may have values."""
    if isinstance(failure, OnrampError):
        return failure.detail
    if isinstance(failure, psycopg2.Error):
        state = failure.pgcode or "none (the connection was lost)"
        return f"the control database refused a step: SQLSTATE {state}; retrying"
    return f"a step failed with an unexpected error, see the log ({type(failure).__name__}); retrying"


class Batch(NamedTuple):
    """A batch's last id, its numbers of inspected and changed events, and whether it was the last."""

    last: int
    inspected: int
    changed: int
    is_last: bool


def next_job(conn: connection) -> Job | None:
    """Return the next due job, and lock it until the end of the transaction."""
    return next((Job(*row) for row in rows(conn, sql.SQL(_NEXT), {})), None)


def change_batch(conn: connection, job: Job, databases: Iterable[str], limit: int = _BATCH) -> Batch:
    """Change the states of the next events of the job's set."""
    of_set, values = job.events.condition()
    of_kind, more = condition(job.kind, databases)
    step, limit = STEPS[job.kind], min(limit, _batch_limit(job))
    values |= more | {"done_to": job.done_to, "job": job.id, "most": limit}
    values |= {"to": step.to, "attempts": step.attempts}
    statement = sql.SQL(_CHANGE).format(set=of_set, condition=of_kind)
    ((last, inspected, changed),) = rows(conn, statement, values)
    return Batch(last or job.done_to, inspected, changed, inspected < limit)


def _batch_limit(of: Job) -> int:
    """Return a batch's number of events; for a job with a rate, those of one second."""
    return min(_BATCH, of.rate or _BATCH)


def store_progress(conn: connection, job: Job, batch: Batch) -> None:
    """Store the progress of a job that only changes states."""
    progress = {"job": job.id, "changed": batch.changed, "inspected": batch.inspected}
    _execute(conn, _PROGRESS, progress | {"done_to": batch.last, "is_last": batch.is_last})


def postpone(conn: connection, job: Job, why: str | None, seconds: float) -> None:
    """Postpone a job with this reason; without a reason only if it waits for another job."""
    _execute(conn, _POSTPONE, {"job": job.id, "why": why, "seconds": seconds})


def sum_up(conn: connection) -> None:
    """Merge the counts of each group and state into one row."""
    _execute(conn, _SUM_UP, {"lock": _SUM_LOCK})


def _execute(conn: connection, statement: str, values: Mapping[str, Any]) -> None:
    with conn.cursor() as cur:
        cur.execute(statement, values)
