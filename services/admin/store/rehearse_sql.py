"""SQL of rehearsal jobs: a page of events, their names, and a job's progress.

`services.admin.jobs.rehearse` has the flow.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from psycopg2 import sql
from psycopg2.extensions import connection

from services.admin.attempts import Attempt
from services.admin.store.jobs_sql import Job
from services.admin.store.sets_sql import condition, rows
from services.admin.store.staging_sql import COLUMNS, attempt_of

_PAGE: Final = """
    SELECT {columns} FROM onramp_admin.events e
    WHERE e.id > %(done_to)s AND {set} AND {condition} ORDER BY e.id LIMIT %(limit)s
"""
_NAMES: Final = "SELECT id, event_name FROM onramp_admin.events WHERE id = ANY (%(events)s)"
_PROGRESS: Final = """
    UPDATE onramp_admin.jobs SET done_to = %(done_to)s, changed = changed + %(answered)s,
        failed = failed + %(failed)s, waits = %(waits)s, state = %(state)s,
        samples = coalesce(samples, %(samples)s::json),
        finished_at = CASE WHEN %(state)s IN ('cancelled', 'done') THEN now() END,
        next_at = now() + CASE WHEN %(answered)s > 0
            THEN coalesce(%(answered)s / rate::float8, 0) ELSE 0.5 END * interval '1 second'
    WHERE id = %(job)s
"""


def page(conn: connection, job: Job, databases: Mapping[str, str], limit: int) -> list[Attempt]:
    """Return the next events of the job's set, `limit` at most."""
    of_set, values = job.events.condition()
    of_kind, more = condition(job.kind, databases)
    statement = sql.SQL(_PAGE).format(columns=sql.SQL(COLUMNS), set=of_set, condition=of_kind)
    values |= more | {"done_to": job.done_to, "limit": limit}
    return [attempt_of(row) for row in rows(conn, statement, values)]


def event_names(conn: connection, events: Sequence[int]) -> dict[int, str | None]:
    """Return the event names by the events' ids."""
    return dict(rows(conn, sql.SQL(_NAMES), {"events": list(events)}))


def store_progress(conn: connection, progress: Mapping[str, Any]) -> None:
    """Store the job's progress; it is due again at once, by its rate, or after half a second."""
    with conn.cursor() as cur:
        cur.execute(_PROGRESS, progress)
