"""Executes jobs on sets of events, batch by batch.

A batch and its job's progress are one transaction, so a killed service loses neither, and another replica
continues.  An event changes only from the job's initial state: of two jobs on the same event, one gets it.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Final, Self

from psycopg2.extensions import connection

from services.admin.jobs.kafka_transform_replays import TransformReplays
from services.admin.jobs.rehearse import rehearse_step
from services.admin.jobs.replay import Retired, replay_step
from services.admin.segments.folder import Segments
from services.admin.store import edits_sql, job_progress_sql
from services.admin.store.bytes_sql import Loaded, load
from services.admin.store.control_sql import connect, prepare, translated
from services.admin.store.jobs_sql import Job
from services.admin.store.staging_sql import Load
from services.ops.fixes import exact
from services.ops.fixes.payloads import fixed
from services.ops.fixes.steps import Fix
from shared import failpoints
from shared.registry.entries import EMPTY, Snapshot

log = logging.getLogger(__name__)

#: A batch is thousands of rows.
_STATEMENT_MS: Final = 60_000
#: Minimum seconds before a failed step is retried.
_FAILED_SECONDS: Final = 5.0
#: A step that takes this long to find that it waits (a locked table, a hanging store) pauses for a multiple
#: of that time, which other jobs use.
_LONG_SECONDS: Final = 2.0
_TIMES_AS_LONG: Final = 4.0


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
    #: Returns whether each known database is retired.
    retired: Retired = dict
    #: Replays and rehearses events of transforms; None: they wait.
    transforms: TransformReplays | None = None
    #: By replay, the id after which its last step has marked events: the next step polls only these.
    #: A replay without an entry polls all its events.
    _replay_after: dict[int, int] = field(default_factory=dict)

    @classmethod
    def open(
        cls,
        dsn: str,
        databases: Mapping[str, str] | None = None,
        segments: Segments | None = None,
        snapshot: Callable[[], Snapshot] = lambda: EMPTY,
        retired: Retired = dict,
        *,
        transforms: TransformReplays | None = None,
    ) -> Self:
        """Connect and prepare the schema."""
        conn = connect(dsn, statement_ms=_STATEMENT_MS)
        with translated(), conn:
            prepare(conn)
        return cls(conn, databases or {}, segments, snapshot, dsn, retired, transforms)

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
                job = job_progress_sql.next_job(self.conn)
                if job is None:
                    return False
                failure = self._failure_of(job)
                if failure is not None:
                    raise failure  # noqa: TRY301 - it ends the transaction
                failpoints.reach("admin.mid_job")
        except Exception:
            if job is not None and self.transforms is not None:
                self.transforms.forget(job)
            if job is None or failure is None:
                raise
            pause = max(_FAILED_SECONDS, _TIMES_AS_LONG * (monotonic() - began))
            self._postpone(job, job_progress_sql.reason_of(failure), pause)
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
            if not job_progress_sql.is_expected(e):
                log.exception("step of a job failed with an unexpected error", extra={"job": job.id})
            return e
        return None

    def _postpone(self, job: Job, why: str | None, seconds: float) -> None:
        """Postpone a job with this reason; without a reason only if it waits for another job."""
        with ExitStack() as opened:
            conn = opened.enter_context(closing(connect(self.dsn))) if self.conn.closed else self.conn
            with translated(), conn:
                job_progress_sql.postpone(conn, job, why, seconds)

    def sum_up(self) -> None:
        """Merge the counts of each group and state into one row."""
        with translated(), self.conn:
            job_progress_sql.sum_up(self.conn)

    def _loader(self, job: Job) -> Load:
        """Return the loader of the bytes to land, equal for a rehearsal and its replay."""
        loader = partial(load, self.conn, self.segments)
        if job.is_edited:
            return partial(edits_sql.with_edits, self.conn, job.events.filters["edits"], loader)
        return loader if job.fix is None else partial(_edited, loader, Fix(exact.loads(job.fix.encode())))

    def _do(self, job: Job) -> None:
        if job.kind == "replay":
            after = self._replay_after.pop(job.id, 0)
            load_bytes = self._loader(job)
            next_after = replay_step(
                self.conn,
                job,
                self.databases,
                load_bytes,
                after=after,
                retired=self.retired,
                transforms=self.transforms,
            )
            if next_after is not None:
                self._replay_after[job.id] = next_after
        elif job.kind == "rehearse":
            load_bytes = self._loader(job)
            rehearse_step(
                self.conn, job, self.databases, load_bytes, self.snapshot, transforms=self.transforms
            )
        else:
            job_progress_sql.store_progress(self.conn, job, job_progress_sql.change_batch(self.conn, job, ()))


def _edited(loader: Load, fix: Fix, ids: list[int]) -> Loaded:
    """Return events with the fix applied; those that it does not fit are errors of this job."""
    return loader(ids).edit(lambda _, value: fixed(value, fix))
