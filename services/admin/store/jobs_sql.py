"""Jobs: what is done to a set of events, batch by batch.

A batch and how far its job is are one transaction, so a service that is killed loses neither, and another
one goes on.  An event changes only from the state that the job starts from: of two jobs that want the same
event one gets it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple, Self

import orjson
from psycopg2 import sql
from psycopg2.extensions import connection

from services.admin.errors.kept import NO_TOPIC_ID
from services.admin.segments.folder import Segments
from services.admin.store import replay_sql
from services.admin.store.bytes_sql import load
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
           finished_at, uuid::text, walked, failed, waits
    FROM onramp_admin.jobs
"""
_ADD: Final = """
    INSERT INTO onramp_admin.jobs (kind, filters, upto, actor, reason, rate, counted)
    VALUES (%s, %s, %s, %s, %s, %s, %s) RETURNING id
"""
#: Each in its turn; one that another service is at is passed over.
_NEXT: Final = f"""{_JOB} WHERE state IN ('running', 'cancelling') AND next_at <= now()
    ORDER BY next_at, id LIMIT 1 FOR UPDATE SKIP LOCKED
"""
_COUNT: Final = "SELECT count(*) FROM onramp_admin.events e WHERE {set} AND {condition}"
_CHANGE: Final = """
    WITH batch AS (
        SELECT id FROM onramp_admin.events e WHERE e.id > %(done_to)s AND {set} ORDER BY id LIMIT %(most)s
    ), changed AS (
        UPDATE onramp_admin.events e
        SET state = %(to)s, job = %(job)s, attempt = attempt + %(attempts)s, changed_at = now()
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
#: A replay that waits looks again after a while.
_REPLAY_PROGRESS: Final = """
    UPDATE onramp_admin.jobs SET done_to = %(done_to)s, changed = changed + %(replayed)s,
        failed = failed + %(failed)s, walked = %(walked)s, waits = %(waits)s, state = %(state)s,
        finished_at = CASE WHEN %(state)s IN ('cancelled', 'done') THEN now() END,
        next_at = now() + CASE WHEN %(is_busy)s
            THEN coalesce(%(looked_at)s / rate::float8, 0) ELSE 0.5 END * interval '1 second'
    WHERE id = %(job)s
"""
_CANCEL: Final = """
    UPDATE onramp_admin.jobs SET state = CASE kind WHEN 'replay' THEN 'cancelling' ELSE 'cancelled' END,
        next_at = now(), finished_at = CASE WHEN kind <> 'replay' THEN now() END
    WHERE id = %s AND state = 'running'
"""


#: It has bytes, its database is one that is configured, and its record says of which topic it is: the writer
#: counts by that, and a release before this one did not say it.
_CAN_BE_REPLAYED: Final = f"""
    e.topic_id <> '{NO_TOPIC_ID}' AND e.sha256 IS NOT NULL AND NOT e.gone
    AND EXISTS (SELECT FROM unnest(%(databases)s::text[]) d WHERE starts_with(e.destination, d || '.'))
"""


class _Step(NamedTuple):
    """The states that a job leads from and to, and what else must hold of an event."""

    start: str
    to: str
    holds: str = "true"
    attempts: int = 0


_STEPS: Final = {
    "discard": _Step("open", "discarded"),
    "restore": _Step("discarded", "open", f"e.changed_at > now() - interval '{UNDO_DAYS} days'"),
    "replay": _Step("open", "replaying", _CAN_BE_REPLAYED, attempts=1),
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
    """A job and how far it is: so many of the `counted` events it has `changed`.

    Of a replay these are the ones that landed or were there; `failed` did not land, and are open again.
    `waits`: why it does not go on just now.
    """

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
    uuid: str
    walked: bool
    failed: int
    waits: str | None


def last_event(conn: connection) -> int:
    """Return the id of the event that was kept last; 0 before the first."""
    ((last,),) = _rows(conn, sql.SQL("SELECT coalesce(max(id), 0) FROM onramp_admin.events"), {})
    return int(last)


def count(conn: connection, kind: str, events: EventSet, databases: Iterable[str] = ()) -> int:
    """Count the events of a set that a job of this kind would change now, where these are the `databases`."""
    of_set, values = events.condition()
    of_kind, more = _condition(kind, databases)
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
    #: Of replays: destination databases by their names.
    databases: Mapping[str, str] = field(default_factory=dict)
    segments: Segments | None = None

    @classmethod
    def open(
        cls, dsn: str, databases: Mapping[str, str] | None = None, segments: Segments | None = None
    ) -> Self:
        """Connect, and see that the schema is there."""
        conn = connect(dsn, statement_ms=_STATEMENT_MS)
        with translated(), conn:
            prepare(conn)
        return cls(conn, databases or {}, segments)

    def close(self) -> None:
        """Close the connection."""
        self.conn.close()

    def work(self) -> bool:
        """Do the next batch of the job whose turn it is; False when there is none."""
        with translated(), self.conn:
            found = _rows(self.conn, sql.SQL(_NEXT), {})
            for row in found:
                self._do(Job(*row))
                failpoints.reach("admin.mid_job")
        return bool(found)

    def _do(self, job: Job) -> None:
        if job.kind == "replay":
            _do_replay(self.conn, job, self.databases, self.segments)
            return
        batch = _do_batch(self.conn, job, ())
        progress = {"job": job.id, "changed": batch.changed, "looked_at": batch.looked_at}
        _execute(self.conn, _PROGRESS, progress | {"done_to": batch.last, "is_last": batch.is_last})


class _Batch(NamedTuple):
    """How far a job went, how many events it looked at and changed, and whether there are no more."""

    last: int
    looked_at: int
    changed: int
    is_last: bool


def _do_batch(conn: connection, job: Job, databases: Iterable[str], most: int = _BATCH) -> _Batch:
    of_set, values = EventSet(orjson.loads(job.filters), job.upto).condition()
    of_kind, more = _condition(job.kind, databases)
    step, most = _STEPS[job.kind], min(most, _most(job))
    values |= more | {"done_to": job.done_to, "job": job.id, "most": most}
    values |= {"to": step.to, "attempts": step.attempts}
    statement = sql.SQL(_CHANGE).format(set=of_set, condition=of_kind)
    ((last, looked_at, changed),) = _rows(conn, statement, values)
    return _Batch(last or job.done_to, looked_at, changed, looked_at < most)


def _do_replay(conn: connection, job: Job, databases: Mapping[str, str], segments: Segments | None) -> None:
    """See what became of marked events, stage or take back what is to be; then mark more."""
    cancelling = job.state == "cancelling"
    seen = replay_sql.settle(
        conn, job.id, job.uuid, databases, partial(load, conn, segments), cancelling=cancelling
    )
    left = replay_sql.outstanding(conn, job.id)
    batch, walked = _Batch(job.done_to, 0, 0, job.walked), job.walked
    if not cancelling and not walked and left < replay_sql.MOST_STAGED:
        batch = _do_batch(conn, job, databases, replay_sql.MOST_STAGED - left)
        walked = batch.is_last
    state = job.state
    if not left and not batch.changed and (cancelling or walked):
        state = "cancelled" if cancelling else "done"
    progress = {"job": job.id, "state": state, "walked": walked, "done_to": batch.last}
    progress |= {"replayed": seen.replayed, "failed": seen.failed, "waits": seen.waits}
    is_busy = bool(seen.replayed + seen.failed + batch.looked_at)
    _execute(conn, _REPLAY_PROGRESS, progress | {"looked_at": batch.looked_at, "is_busy": is_busy})


def _most(of: Job) -> int:
    """Return how many events a batch takes: of a slow job what it may change in a second."""
    return min(_BATCH, of.rate or _BATCH)


def _condition(kind: str, databases: Iterable[str]) -> tuple[sql.Composable, dict[str, Any]]:
    step = _STEPS[kind]
    values = {"from": step.start, "databases": list(databases)}
    return sql.SQL(f"e.state = %(from)s AND {step.holds}"), values


def _execute(conn: connection, statement: str, values: Mapping[str, Any]) -> None:
    with conn.cursor() as cur:
        cur.execute(statement, values)


def _rows(
    conn: connection, statement: sql.Composable, values: Mapping[str, Any]
) -> Sequence[tuple[Any, ...]]:
    with conn.cursor() as cur:
        cur.execute(statement, values)
        return cur.fetchall()
