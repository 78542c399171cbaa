"""Jobs: what is done to a set of events, batch by batch.

A batch and how far its job is are one transaction, so a service that is killed loses neither, and another
one goes on.  An event changes only from the state that the job starts from: of two jobs that want the same
event one gets it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple, Self

import orjson
from psycopg2 import sql
from psycopg2.extensions import connection

from services.admin.store.control_sql import connect, prepare, translated
from services.admin.store.read_sql import FILTERS
from shared import failpoints

#: How long a discard can be undone.
UNDO_DAYS: Final = 7
_BATCH: Final = 5_000
#: A batch is thousands of rows.
_STATEMENT_MS: Final = 60_000
_JOB: Final = """
    SELECT id, kind, filters::text, upto, actor, reason, rate, state, counted, done_to, changed, created_at,
           finished_at
    FROM onramp_admin.jobs
"""
_ADD: Final = """
    INSERT INTO onramp_admin.jobs (kind, filters, upto, actor, reason, rate, counted)
    VALUES (%s, %s, %s, %s, %s, %s, %s) RETURNING id
"""
#: Each in its turn; one that another service is at is passed over.
_NEXT: Final = f"""{_JOB} WHERE state = 'running' AND next_at <= now()
    ORDER BY next_at, id LIMIT 1 FOR UPDATE SKIP LOCKED
"""
_COUNT: Final = "SELECT count(*) FROM onramp_admin.events e WHERE {set} AND {condition}"
_CHANGE: Final = """
    WITH batch AS (
        SELECT id FROM onramp_admin.events e WHERE e.id > %(done_to)s AND {set} ORDER BY id LIMIT %(most)s
    ), changed AS (
        UPDATE onramp_admin.events e SET state = %(to)s, job = %(job)s, changed_at = now()
        FROM batch WHERE e.id = batch.id AND {condition} RETURNING e.id
    )
    SELECT (SELECT max(id) FROM batch), (SELECT count(*) FROM batch), (SELECT count(*) FROM changed)
"""
_PROGRESS: Final = """
    UPDATE onramp_admin.jobs SET done_to = %(done_to)s, changed = changed + %(changed)s,
        state = CASE WHEN %(is_last)s THEN 'done' ELSE state END,
        finished_at = CASE WHEN %(is_last)s THEN now() END,
        next_at = now() + coalesce(%(looked_at)s / rate::float8, 0) * interval '1 second'
    WHERE id = %(job)s
"""
_CANCEL: Final = """
    UPDATE onramp_admin.jobs SET state = 'cancelled', finished_at = now() WHERE id = %s AND state = 'running'
"""


class _Step(NamedTuple):
    """The states that a job leads from and to, and what else must hold of an event."""

    start: str
    to: str
    holds: str = "true"


_STEPS: Final = {
    "discard": _Step("open", "discarded"),
    "restore": _Step("discarded", "open", f"e.changed_at > now() - interval '{UNDO_DAYS} days'"),
}


class EventSet(NamedTuple):
    """Events that match all `filters`, up to the id `upto`: what is kept later is not among them."""

    filters: Mapping[str, Any]
    upto: int

    def condition(self) -> tuple[sql.Composable, dict[str, Any]]:
        """Return it as SQL with its parameters."""
        given = {f"f_{name}": wanted for name, wanted in self.filters.items()}
        parts = [sql.SQL(FILTERS[name].replace("%s", f"%(f_{name})s")) for name in self.filters]
        return sql.SQL(" AND ").join([sql.SQL("e.id <= %(upto)s"), *parts]), given | {"upto": self.upto}


class Job(NamedTuple):
    """A job and how far it is; `changed`: so many events of the `counted` ones it has changed."""

    id: int
    kind: str
    filters: str
    upto: int
    actor: str
    reason: str
    rate: int | None
    state: str
    counted: int
    done_to: int
    changed: int
    created_at: datetime
    finished_at: datetime | None


def last_event(conn: connection) -> int:
    """Return the id of the event that was kept last; 0 before the first."""
    ((last,),) = _rows(conn, sql.SQL("SELECT coalesce(max(id), 0) FROM onramp_admin.events"), {})
    return int(last)


def count(conn: connection, kind: str, events: EventSet) -> int:
    """Count the events of a set that a job of this kind would change now."""
    of_set, values = events.condition()
    of_kind, more = _condition(kind)
    statement = sql.SQL(_COUNT).format(set=of_set, condition=of_kind)
    ((found,),) = _rows(conn, statement, values | more)
    return int(found)


def add(
    conn: connection, kind: str, events: EventSet, by: tuple[str, str], *, rate: int | None, counted: int
) -> int:
    """Add a job by an actor for a reason; return its id."""
    filters = orjson.dumps(dict(events.filters)).decode()
    with conn.cursor() as cur:
        cur.execute(_ADD, (kind, filters, events.upto, *by, rate, counted))
        ((job,),) = cur.fetchall()
        return int(job)


def job(conn: connection, number: int) -> Job | None:
    """Return one job."""
    found = _rows(conn, sql.SQL(_JOB + " WHERE id = %(id)s"), {"id": number})
    return Job(*found[0]) if found else None


def jobs(conn: connection, most: int) -> list[Job]:
    """Return the last jobs, the newest first."""
    return [
        Job(*row) for row in _rows(conn, sql.SQL(_JOB + " ORDER BY id DESC LIMIT %(most)s"), {"most": most})
    ]


def cancel(conn: connection, number: int) -> bool:
    """End a running job before its next batch; what it has changed stays.  False when it does not run."""
    with conn.cursor() as cur:
        cur.execute(_CANCEL, (number,))
        return bool(cur.rowcount)


@dataclass(frozen=True, slots=True)
class JobSession:
    """A connection that works at jobs.  Its methods raise `InfrastructureError`: then it is to be closed."""

    conn: connection

    @classmethod
    def open(cls, dsn: str) -> Self:
        """Connect, and see that the schema is there."""
        conn = connect(dsn, statement_ms=_STATEMENT_MS)
        with translated(), conn:
            prepare(conn)
        return cls(conn)

    def close(self) -> None:
        """Close the connection."""
        self.conn.close()

    def work(self) -> bool:
        """Do the next batch of the job whose turn it is; False when there is none."""
        with translated(), self.conn:
            found = _rows(self.conn, sql.SQL(_NEXT), {})
            if found:
                _do_batch(self.conn, Job(*found[0]))
                failpoints.reach("admin.mid_job")
        return bool(found)


def _do_batch(conn: connection, job: Job) -> None:
    of_set, values = EventSet(orjson.loads(job.filters), job.upto).condition()
    of_kind, more = _condition(job.kind)
    values |= more | {"done_to": job.done_to, "job": job.id, "to": _STEPS[job.kind].to, "most": _most(job)}
    statement = sql.SQL(_CHANGE).format(set=of_set, condition=of_kind)
    ((last, looked_at, changed),) = _rows(conn, statement, values)
    progress = {"job": job.id, "changed": changed, "looked_at": looked_at}
    progress |= {"done_to": last or job.done_to, "is_last": looked_at < _most(job)}
    with conn.cursor() as cur:
        cur.execute(_PROGRESS, progress)


def _most(of: Job) -> int:
    """Return how many events a batch takes: of a slow job what it may change in a second."""
    return min(_BATCH, of.rate or _BATCH)


def _condition(kind: str) -> tuple[sql.Composable, dict[str, Any]]:
    step = _STEPS[kind]
    return sql.SQL(f"e.state = %(from)s AND {step.holds}"), {"from": step.start}


def _rows(
    conn: connection, statement: sql.Composable, values: Mapping[str, Any]
) -> Sequence[tuple[Any, ...]]:
    with conn.cursor() as cur:
        cur.execute(statement, values)
        return cur.fetchall()
