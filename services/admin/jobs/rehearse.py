"""One step of a rehearsal job: stage requests for a page of events, or count the answers.

The writer answers for events that a table refused, a transform for those that it has parked.
Events do not change.  A page is counted in the transaction that moves the job on, once all of it is
answered: after a kill before that, the page is repeated.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import orjson
from psycopg2.extensions import connection

from services.admin.attempts import AttemptState, PendingAttempts, by_transform, destination_named
from services.admin.jobs.kafka_transform_replays import TransformReplays
from services.admin.store import rehearsals_sql, rehearse_sql, results_sql
from services.admin.store.jobs_sql import Job
from services.admin.store.rehearsals_sql import Question
from services.admin.store.staging_sql import Load
from shared.errors import InfrastructureError
from shared.mask import masked, masked_row
from shared.registry import Snapshot
from shared.transform_replay import transform_of

#: Events of one page.
MAX_EVENTS: Final = 5_000
SAMPLES: Final = 10


def rehearse_step(
    conn: connection,
    job: Job,
    databases: Mapping[str, str],
    load: Load,
    snapshot: Callable[[], Snapshot],
    *,
    transforms: TransformReplays | None = None,
) -> None:
    """Run one step in the caller's transaction.

    `load` returns the bytes to try; the registry's `snapshot` names the fields that samples hide;
    `transforms` stages events that transforms parked.
    """
    progress: dict[str, Any] = {"job": job.id, "done_to": job.done_to, "answered": 0, "failed": 0}
    progress |= {"waits": None, "state": job.state, "samples": None}
    if job.state == "cancelling":
        _forget(job, databases, databases)
        rehearse_sql.store_progress(conn, progress | {"state": "cancelled"})
        return

    # Each database or transform stages the requests that it does not know, and returns the answers it has.
    limit = min(MAX_EVENTS, job.rate or MAX_EVENTS)
    page = rehearse_sql.page(conn, job, databases, limit)
    shown = {each.id for each in page[:SAMPLES]} if job.samples is None else set()
    question = Question(job.uuid, job.to, job.with_triggers, shown)
    of_transforms, others = by_transform(page)
    pending = PendingAttempts(databases, others)
    states: list[AttemptState] = []
    reached: set[str] = set()
    waits: list[str] = []
    for name, attempts in chain(of_transforms.items(), pending):
        try:
            if (transform := transform_of(name)) is not None and transforms is not None:
                states += transforms.follow(job, transform, attempts, load)
                continue
            destination = destination_named(databases, name)
            states += pending.without_routed(rehearsals_sql.ask(destination, question, attempts, load))
            reached.add(name)
        except InfrastructureError as error:
            waits.append(error.detail)
    if waits:
        rehearse_sql.store_progress(conn, progress | {"waits": waits[0]})
        return
    unanswered = {state.id for state in states if state.outcome is None}
    if unanswered:
        silent = {_answerer(each.destination) for each in page if each.id in unanswered}
        text = f"no answer yet from {' and '.join(sorted(silent))}"
        rehearse_sql.store_progress(conn, progress | {"waits": text})
        return

    # All are answered: the page is counted, and the next step takes the next one.
    _forget(job, databases, reached)
    if transforms is not None:
        transforms.forget_rehearsed(job, page)
    results = Counter(results_sql.result_of(state) for state in states)
    results_sql.add(conn, job.id, results)
    failed = sum(n for (outcome, _), n in results.items() if outcome == results_sql.FAILED)
    progress |= {"answered": len(states), "failed": failed}
    if page:
        progress |= {"done_to": page[-1].id, "samples": _samples(conn, load, states, snapshot())}
    state = "running" if len(page) == limit else "done"
    rehearse_sql.store_progress(conn, progress | {"state": state})


def _answerer(destination: str) -> str:
    transform = transform_of(destination)
    return "the writer" if transform is None else f"transform {transform}"


def _forget(job: Job, databases: Mapping[str, str], names: Iterable[str]) -> None:
    """Remove staged requests; in an unreachable database the writer drops them after an hour."""
    for name in names:
        try:
            rehearsals_sql.forget(destination_named(databases, name), job.uuid)
        except InfrastructureError:
            continue


def _samples(conn: connection, load: Load, states: Sequence[AttemptState], known: Snapshot) -> str:
    """Return some events with their outcomes: as they were rehearsed, and as rows; both are masked."""
    some = sorted(states)[:SAMPLES]
    ids = [state.id for state in some]
    values = load(ids).values
    names = rehearse_sql.event_names(conn, ids)
    shown = [
        {
            "event": state.id,
            "outcome": results_sql.result_of(state)[0],
            "edited": masked(values.get(state.id), known.personal_of(names[state.id])),
            "row": state.row and masked_row(state.row, known.personal_of(names[state.id])),
        }
        for state in some
    ]
    return orjson.dumps(shown).decode()
