"""Executes jobs on sets of events, batch by batch.

A batch and its job's progress are one transaction, so a killed service loses neither, and another replica
continues.  An event changes only from the job's initial state: of two jobs on the same event, one gets it.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any, Final, NamedTuple, Self

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import connection

from services.admin.segments.folder import Segments
from services.admin.store import edits_sql, rehearse_sql, replay_sql
from services.admin.store.bytes_sql import Loaded, load
from services.admin.store.control_sql import connect, prepare, translated
from services.admin.store.jobs_sql import JOB, Job
from services.admin.store.replay_sql import Retired
from services.admin.store.sets_sql import STEPS, condition, rows
from services.admin.store.staging_sql import Load, Staging
from services.ops.fixes import exact
from services.ops.fixes.payloads import fixed
from services.ops.fixes.steps import Fix
from shared import failpoints
from shared.errors import OnrampError
from shared.registry.model import EMPTY, Snapshot

log = logging.getLogger(__name__)

_BATCH: Final = 5_000
#: A batch is thousands of rows.
_STATEMENT_MS: Final = 60_000
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
#: Seconds before the next poll of a replay with nothing to stage.
_REPLAY_PROGRESS: Final = """
    UPDATE onramp_admin.jobs SET done_to = %(done_to)s, changed = changed + %(replayed)s,
        failed = failed + %(failed)s, walked = %(walked)s, waits = %(waits)s, state = %(state)s,
        finished_at = CASE WHEN %(state)s IN ('cancelled', 'done') THEN now() END,
        next_at = now() + CASE WHEN %(is_busy)s
            THEN coalesce(%(inspected)s / rate::float8, 0) ELSE %(pause)s END * interval '1 second'
    WHERE id = %(job)s
"""
#: Longest pause: frequent polls for 10,000 events take CPU time from the writer that lands them.
_SOON: Final = 0.25
_LATER: Final = 0.5
_MUCH_LATER: Final = 1.0
#: Few events are polled again soon, and so are those of which a share (one in this number) had an outcome.
_FEW: Final = 1_000
_SHARE: Final = 4
#: Minimum seconds before a failed step is retried.
_FAILED_SECONDS: Final = 5.0
#: A step that takes this long to find that it waits (a locked table, a hanging store) pauses for a multiple
#: of that time, which other jobs use.
_LONG_SECONDS: Final = 2.0
_TIMES_AS_LONG: Final = 4.0
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


@dataclass(frozen=True, slots=True)
class JobSession:
    """A connection that executes jobs.  Close it after a method has raised `InfrastructureError`."""

    conn: connection
    #: Destination databases of replays, by name.
    databases: Mapping[str, str] = field(default_factory=dict)
    segments: Segments | None = None
    #: Returns the registry in force, which names personal fields, or raises `InfrastructureError`.
    snapshot: Callable[[], Snapshot] = lambda: EMPTY
    #: DSN for postponing a job whose step has lost the connection.
    dsn: str = field(default="", repr=False)
    #: Returns the databases that an operator has retired.
    retired: Retired = frozenset
    #: By replay, the id after which its last step has marked events: the next step polls only these.
    #: A replay without an entry polls all its events.
    _marked_behind: dict[int, int] = field(default_factory=dict)

    @classmethod
    def open(
        cls,
        dsn: str,
        databases: Mapping[str, str] | None = None,
        segments: Segments | None = None,
        snapshot: Callable[[], Snapshot] = lambda: EMPTY,
        retired: Retired = frozenset,
    ) -> Self:
        """Connect and prepare the schema."""
        conn = connect(dsn, statement_ms=_STATEMENT_MS)
        with translated(), conn:
            prepare(conn)
        return cls(conn, databases or {}, segments, snapshot, dsn, retired)

    def close(self) -> None:
        """Close the connection."""
        self.conn.close()

    def work(self) -> bool:
        """Execute the next batch of the next due job; return False without one.

        A job that fails, or is slow to find that it waits, is postponed, and other jobs continue.  Raises if
        the step has lost the connection.
        """
        began, job, failure = monotonic(), None, None
        try:
            with translated(), self.conn:
                job = next((Job(*row) for row in rows(self.conn, sql.SQL(_NEXT), {})), None)
                if job is None:
                    return False
                failure = self._failure_of(job)
                if failure is not None:
                    raise failure  # noqa: TRY301 - it ends the transaction
                failpoints.reach("admin.mid_job")
        except Exception:
            if job is None or failure is None:
                raise
            pause = max(_FAILED_SECONDS, _TIMES_AS_LONG * (monotonic() - began))
            self._postpone(job, _why(failure), pause)
            if self.conn.closed:
                raise
        else:
            took = monotonic() - began
            if took >= _LONG_SECONDS:
                self._postpone(job, None, _TIMES_AS_LONG * took)
        return True

    def _failure_of(self, job: Job) -> Exception | None:
        try:
            self._do(job)
        except Exception as e:
            if not isinstance(e, psycopg2.Error | OnrampError):
                log.exception("step of a job failed with an unexpected error", extra={"job": job.id})
            return e
        return None

    def _postpone(self, job: Job, why: str | None, seconds: float) -> None:
        """Postpone a job with this reason; without a reason only if it waits for another job."""
        with ExitStack() as opened:
            conn = opened.enter_context(closing(connect(self.dsn))) if self.conn.closed else self.conn
            with translated(), conn:
                _execute(conn, _POSTPONE, {"job": job.id, "why": why, "seconds": seconds})

    def sum_up(self) -> None:
        """Merge the counts of each group and state into one row."""
        with translated(), self.conn:
            _execute(self.conn, _SUM_UP, {"lock": _SUM_LOCK})

    def _loader(self, job: Job) -> Load:
        """Return the loader of the bytes to land, equal for a rehearsal and its replay."""
        loader = partial(load, self.conn, self.segments)
        if job.is_edited:
            return partial(edits_sql.with_edits, self.conn, job.events.filters["edits"], loader)
        return loader if job.fix is None else partial(_edited, loader, Fix(exact.loads(job.fix.encode())))

    def _do(self, job: Job) -> None:
        if job.kind == "replay":
            self._replay(job)
            return
        if job.kind == "rehearse":
            rehearse_sql.work(self.conn, job, self.databases, self._loader(job), self.snapshot)
            return
        batch = _do_batch(self.conn, job, ())
        progress = {"job": job.id, "changed": batch.changed, "inspected": batch.inspected}
        _execute(self.conn, _PROGRESS, progress | {"done_to": batch.last, "is_last": batch.is_last})

    def _replay(self, job: Job) -> None:
        """Collect outcomes of marked events, stage or withdraw attempts, then mark more events."""
        cancelling = job.state == "cancelling"
        marked_behind = self._marked_behind.pop(job.id, 0)
        after = 0 if cancelling else marked_behind
        by, load = Staging(job.uuid, job.to), self._loader(job)
        seen = replay_sql.settle(
            self.conn,
            job.id,
            by,
            self.databases,
            load,
            cancelling=cancelling,
            after=after,
            retired=self.retired,
        )
        left = replay_sql.outstanding(self.conn, job.id)
        batch, walked = _Batch(job.done_to, 0, 0, job.walked), job.walked
        # Many at once: the next step polls these.
        if not cancelling and not walked and left <= replay_sql.MAX_STAGED * 3 // 4:
            batch = _do_batch(self.conn, job, self.databases, replay_sql.MAX_STAGED - left)
            walked = batch.is_last
        if seen.is_behind or batch.changed:
            self._marked_behind[job.id] = after if seen.is_behind else job.done_to
        state = job.state
        if not left and not batch.changed and (cancelling or walked):
            state = "cancelled" if cancelling else "done"
        waits = seen.waits or (job.waits if after else None)
        progress = {"job": job.id, "state": state, "walked": walked, "done_to": batch.last, "waits": waits}
        progress |= {"replayed": seen.replayed, "failed": seen.failed}
        progress |= {"inspected": batch.inspected, "is_busy": bool(batch.inspected) or seen.is_behind}
        through = seen.replayed + seen.failed
        pause = _SOON if after else _pause(through, through + left)
        _execute(self.conn, _REPLAY_PROGRESS, progress | {"pause": pause})


def _pause(through: int, asked: int) -> float:
    """Return the seconds to wait, given how many of the `asked` events have an outcome."""
    if through * _SHARE < asked and asked > _FEW:
        return _MUCH_LATER
    return _SOON if through else _LATER


def _why(failure: Exception) -> str:
    """Return the cause without a library's message, which may have values."""
    if isinstance(failure, OnrampError):
        return failure.detail
    if isinstance(failure, psycopg2.Error):
        state = failure.pgcode or "none (the connection was lost)"
        return f"the control database refused a step: SQLSTATE {state}; retrying"
    return f"a step failed with an unexpected error, see the log ({type(failure).__name__}); retrying"


def _edited(loader: Load, fix: Fix, ids: list[int]) -> Loaded:
    """Return events with the fix applied; those that it does not fit are errors of this job."""
    return loader(ids).edit(lambda _, value: fixed(value, fix))


class _Batch(NamedTuple):
    """A batch's last id, its numbers of inspected and changed events, and whether it was the last."""

    last: int
    inspected: int
    changed: int
    is_last: bool


def _do_batch(conn: connection, job: Job, databases: Iterable[str], limit: int = _BATCH) -> _Batch:
    of_set, values = job.events.condition()
    of_kind, more = condition(job.kind, databases)
    step, limit = STEPS[job.kind], min(limit, _batch_limit(job))
    values |= more | {"done_to": job.done_to, "job": job.id, "most": limit}
    values |= {"to": step.to, "attempts": step.attempts}
    statement = sql.SQL(_CHANGE).format(set=of_set, condition=of_kind)
    ((last, inspected, changed),) = rows(conn, statement, values)
    return _Batch(last or job.done_to, inspected, changed, inspected < limit)


def _batch_limit(of: Job) -> int:
    """Return a batch's number of events; for a job with a rate, those of one second."""
    return min(_BATCH, of.rate or _BATCH)


def _execute(conn: connection, statement: str, values: Mapping[str, Any]) -> None:
    with conn.cursor() as cur:
        cur.execute(statement, values)
