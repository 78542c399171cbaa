"""One step of a rehearsal job: stage requests for a page of events, or count the writer's answers.

Events do not change.  A page is counted in the transaction that moves the job on, once all of it is
answered: after a kill before that, the page is repeated.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import orjson
from psycopg2.extensions import connection

from services.admin.attempts import AttemptState, PendingAttempts, destination_named
from services.admin.store import rehearsals_sql, rehearse_sql, results_sql
from services.admin.store.jobs_sql import Job
from services.admin.store.rehearsals_sql import Question
from services.admin.store.staging_sql import Load
from shared.errors import InfrastructureError
from shared.mask import masked, masked_row
from shared.registry import Snapshot

#: Events of one page.
MAX_EVENTS: Final = 5_000
SAMPLES: Final = 10


def rehearse_step(
    conn: connection,
    job: Job,
    databases: Mapping[str, str],
    load: Load,
    snapshot: Callable[[], Snapshot],
) -> None:
    """Run one step in the caller's transaction.

    `load` returns the bytes to try; the registry's `snapshot` names the fields that samples hide.
    """
    progress: dict[str, Any] = {"job": job.id, "done_to": job.done_to, "answered": 0, "failed": 0}
    progress |= {"waits": None, "state": job.state, "samples": None}
    if job.state == "cancelling":
        _forget(job, databases, databases)
        rehearse_sql.store_progress(conn, progress | {"state": "cancelled"})
        return

    # Each database stages the requests that it does not know, and returns the answers that it has.
    limit = min(MAX_EVENTS, job.rate or MAX_EVENTS)
    page = rehearse_sql.page(conn, job, databases, limit)
    shown = {each.id for each in page[:SAMPLES]} if job.samples is None else set()
    question = Question(job.uuid, job.to, job.with_triggers, shown)
    pending = PendingAttempts(databases, page)
    states: list[AttemptState] = []
    reached: set[str] = set()
    waits: list[str] = []
    for name, attempts in pending:
        try:
            destination = destination_named(databases, name)
            states += pending.without_routed(rehearsals_sql.ask(destination, question, attempts, load))
            reached.add(name)
        except InfrastructureError as error:
            waits.append(error.detail)
    if waits:
        rehearse_sql.store_progress(conn, progress | {"waits": waits[0]})
        return
    if any(state.outcome is None for state in states):
        rehearse_sql.store_progress(conn, progress | {"waits": "the writer has not answered yet"})
        return

    # All are answered: the page is counted, and the next step takes the next one.
    _forget(job, databases, reached)
    results = Counter(results_sql.result_of(state) for state in states)
    results_sql.add(conn, job.id, results)
    failed = sum(n for (outcome, _), n in results.items() if outcome == results_sql.FAILED)
    progress |= {"answered": len(states), "failed": failed}
    if page:
        progress |= {"done_to": page[-1].id, "samples": _samples(conn, load, states, snapshot())}
    state = "running" if len(page) == limit else "done"
    rehearse_sql.store_progress(conn, progress | {"state": state})


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
