"""One step of a replay job: stage marked events, store their outcomes, and mark more.

Events that a table refused are staged in its database, for the writer; events that a transform parked are
written to Kafka, for this transform.

An event is marked (`replaying`, its next attempt) in the transaction that ends a step.  A later step stages
the marked events that their database does not know.  A kill between both leaves only marked events, and the
next step is the usual one.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Final

import orjson
from psycopg2.extensions import connection

from services.admin.attempts import (
    Attempt,
    AttemptState,
    PendingAttempts,
    by_transform,
    destination_named,
    of_retired,
)
from services.admin.jobs.kafka_transform_replays import TransformReplays
from services.admin.store import job_progress_sql, replay_sql, results_sql, staging_sql
from services.admin.store.job_progress_sql import Batch
from services.admin.store.jobs_sql import Job
from services.admin.store.staging_sql import Load, Staging
from services.ops.parked.outcome_sentence import sentence_of
from shared.errors import DATABASE_RETIRED, NOT_CONFIGURED, InfrastructureError, UserError
from shared.transform_replay import transform_of

#: Maximum events that are staged ahead of the writer.
MAX_STAGED: Final = 10_000
#: Returns whether an operator has retired it, by database that the writer ever had.
Retired = Callable[[], Mapping[str, bool]]
#: Seconds before the next step of a replay with nothing to stage.  Frequent steps over 10,000 events take CPU
#: time from the writer that lands them.
_SOON: Final = 0.25
_LATER: Final = 0.5
_MUCH_LATER: Final = 1.0
#: Few events are polled again soon, and so are those of which a share (one in this number) had an outcome.
_FEW: Final = 1_000
_SHARE: Final = 4


def replay_step(
    conn: connection,
    job: Job,
    databases: Mapping[str, str],
    load: Load,
    *,
    after: int = 0,
    retired: Retired = dict,
    transforms: TransformReplays | None = None,
) -> int | None:
    """Run one step in the caller's transaction; return the `after` of the next step, None for its default.

    `load` returns the bytes to land; `transforms` stages events that transforms parked.  Marked events up to
    the id `after` are skipped: they were staged by an earlier step, and a step without `after` polls them.
    """
    is_cancelled = job.state == "cancelling"
    after = 0 if is_cancelled else after
    staging = Staging(job.uuid, job.to)
    results: Counter[tuple[str, str]] = Counter()
    waits: list[str] = []
    has_unstaged = False

    # Each database or transform stages or withdraws its attempts, and returns the outcomes that it knows.
    of_transforms, others = by_transform(replay_sql.marked_attempts(conn, job.id, after))
    pending = PendingAttempts(databases, others)
    for name, attempts in chain(of_transforms.items(), pending):
        try:
            if (transform := transform_of(name)) is not None and transforms is not None:
                states = _at_transform(transforms, job, transform, attempts, load)
                if is_cancelled and (more := len(attempts) - len(states)):
                    waits.append(f"{more:,} events are on Kafka for transform {transform}")
            else:
                destination = destination_named(databases, name)
                if is_cancelled:
                    states = staging_sql.withdraw(destination, staging, attempts)
                else:
                    states = staging_sql.follow(destination, staging, attempts, load)
                states = pending.without_routed(states)
        except InfrastructureError as error:
            states = _released(name, attempts, error, retired, is_cancelled=is_cancelled)
            if len(states) < len(attempts):
                waits.append(error.detail)

        # An event with an outcome gets its state; an event that another job attempted gets a higher attempt.
        ended = [state for state in states if state.outcome is not None or is_cancelled]
        replay_sql.store_outcomes(conn, job.id, ended)
        replay_sql.raise_attempts(
            conn, job.id, [s for s in states if s.outcome is None and s.known is not None]
        )
        results.update(_result(s.outcome, s.reason) for s in ended if s.outcome is not None)
        has_unstaged |= not is_cancelled and any(s.outcome is None and not s.staged for s in states)
    results_sql.add(conn, job.id, results)

    # More events are marked, many at once: the next step stages these.
    left = replay_sql.count_outstanding(conn, job.id)
    batch = Batch(job.done_to, 0, 0, is_last=job.walked)
    if not is_cancelled and not job.walked and left <= MAX_STAGED * 3 // 4:
        batch = job_progress_sql.change_batch(conn, job, databases, MAX_STAGED - left)

    state = job.state
    if not left and not batch.changed and (is_cancelled or batch.is_last):
        state = "cancelled" if is_cancelled else "done"
    failed = sum(n for (outcome, _), n in results.items() if outcome == results_sql.FAILED)
    progress = {"job": job.id, "state": state, "walked": batch.is_last, "done_to": batch.last}
    progress |= {"replayed": results.total() - failed, "failed": failed, "inspected": batch.inspected}
    progress |= {"waits": "; ".join(sorted(waits)) or (job.waits if after else None)}
    progress |= {"is_busy": bool(batch.inspected) or has_unstaged}
    pause = _SOON if after else _pause(results.total(), results.total() + left)
    replay_sql.store_progress(conn, progress | {"pause": pause})
    if has_unstaged:
        return after
    return job.done_to if batch.changed else None


def _at_transform(
    transforms: TransformReplays,
    job: Job,
    transform: str,
    attempts: Sequence[Attempt],
    load: Load,
) -> list[AttemptState]:
    """Return the states of attempts at a transform's events: all, or those that a cancel ends."""
    if job.state == "cancelling":
        return transforms.withdraw(job, transform, attempts)
    return transforms.follow(job, transform, attempts, load)


def _released(
    database: str,
    attempts: Sequence[Attempt],
    error: InfrastructureError,
    retired: Retired,
    *,
    is_cancelled: bool,
) -> list[AttemptState]:
    """Return the attempts to release: those of a database that was removed and cancelled, or retired.

    A database that is only unreachable may still land its attempts: they wait.
    """
    if error.fault is not NOT_CONFIGURED:
        return []
    if is_cancelled:
        return [AttemptState(a.id, None, None, staged=False) for a in attempts]
    why = UserError(DATABASE_RETIRED, "the database was retired before the replay landed")
    return [
        staging_sql.lost(AttemptState(a.id, None, None, staged=False), why)
        for a in of_retired(database, attempts, retired())
    ]


def _result(outcome: str, reason: str | None) -> tuple[str, str]:
    """Return an attempt's outcome, and the reason if it failed again."""
    if outcome.startswith(replay_sql.EARLIER):
        return results_sql.LANDED_EARLIER, ""
    if outcome != replay_sql.PARKED:
        return outcome, ""
    return results_sql.FAILED, sentence_of(orjson.loads(reason or "{}"))


def _pause(through: int, asked: int) -> float:
    """Return the seconds to wait, given how many of the `asked` events have an outcome."""
    if through * _SHARE < asked and asked > _FEW:
        return _MUCH_LATER
    return _SOON if through else _LATER
