"""A rehearsal, page by page: the writer answers for each event, and the answers are counted.

Events do not change.  A page is counted with the job's progress once all of it is answered: after a kill
before that, the page is repeated.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson
from psycopg2 import sql
from psycopg2.extensions import connection

from services.admin.attempts import Attempt, AttemptState, PendingAttempts, destination_named
from services.admin.store import jobs_sql, rehearsals_sql, results_sql, sets_sql
from services.admin.store.jobs_sql import Job, Plan
from services.admin.store.read_sql import Only
from services.admin.store.rehearsals_sql import Question
from services.admin.store.sets_sql import EventSet, condition, rows
from services.admin.store.staging_sql import COLUMNS, Load, attempt_of
from services.ops.parked.outcome_sentence import sentence_of
from shared.errors import NOT_STORED, SET_CHANGED, InfrastructureError, UserError
from shared.mask import masked
from shared.registry import Snapshot

#: Events of one page.
MAX_EVENTS: Final = 5_000
SAMPLES: Final = 10
_PAGE: Final = """
    SELECT {columns} FROM onramp_admin.events e
    WHERE e.id > %(done_to)s AND {set} AND {condition} ORDER BY e.id LIMIT %(most)s
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


def work(
    conn: connection,
    job: Job,
    databases: Mapping[str, str],
    load: Load,
    snapshot: Callable[[], Snapshot],
) -> None:
    """Stage the next page, or count its answers; the registry's `snapshot` names hidden fields."""
    progress: dict[str, Any] = {
        "job": job.id,
        "done_to": job.done_to,
        "answered": 0,
        "failed": 0,
        "waits": None,
    }
    progress |= {"state": job.state, "samples": None}
    if job.state == "cancelling":
        _forget(job, databases, databases)
        _execute(conn, progress | {"state": "cancelled"})
        return
    page = _page(conn, job, databases)
    question = Question(job.uuid, job.to, job.with_triggers)
    pending = PendingAttempts(databases, page)
    found: list[AttemptState] = []
    reached: set[str] = set()
    waits: list[str] = []
    for name, attempts in pending:
        try:
            destination = destination_named(databases, name)
            found += pending.without_routed(rehearsals_sql.ask(destination, question, attempts, load))
            reached.add(name)
        except InfrastructureError as error:
            waits.append(error.detail)
    if waits:
        _execute(conn, progress | {"waits": waits[0]})
        return
    if any(f.outcome is None for f in found):
        _execute(conn, progress | {"waits": "the writer has not answered yet"})
        return
    _forget(job, databases, reached)
    results = Counter(result_of(f) for f in found)
    results_sql.add(conn, job.id, results)
    progress |= {"answered": len(found), "failed": _failed(results)}
    if page:
        progress |= {"done_to": page[-1].id, "samples": _samples(conn, load, found, snapshot())}
    _execute(conn, progress | {"state": "running" if len(page) == _batch_limit(job) else "done"})


def rehearsed_set(
    conn: connection, number: int, databases: Mapping[str, str], only: Only = None
) -> tuple[EventSet, Plan]:
    """Return the set and the plan of a rehearsal, for a replay.

    Raises `UserError` if it does not exist, is not done, or the state of an event of its set has changed.
    """
    job = jobs_sql.job(conn, number, only)
    if job is None or job.kind != "rehearse":
        raise UserError(NOT_STORED, "there is no rehearsal of this id")
    if job.state != "done":
        raise UserError(SET_CHANGED, f"rehearsal {number} is not done: it is {job.state}")
    counted = sets_sql.count(conn, "replay", job.events, databases)
    if counted != job.counted or sets_sql.has_changed(conn, job.events, job.created_at):
        raise UserError(SET_CHANGED, f"events of rehearsal {number} have changed: {counted} are open now")
    return job.events, job.plan._replace(with_triggers=False, rehearsed=number)


class Wish(NamedTuple):
    """The filters of a job's set, its last event, and its options."""

    filters: Mapping[str, Any]
    upto: int | None
    plan: Plan


def set_and_plan(
    conn: connection, own: Wish, rehearsed: int | None, databases: Mapping[str, str]
) -> tuple[EventSet, Plan]:
    """Return the set and the options of a job: its own, or those of a visible rehearsal.

    Raises `UserError` as `rehearsed_set` does.
    """
    if rehearsed is not None:
        return rehearsed_set(conn, rehearsed, databases, own.filters.get("only"))
    return sets_sql.frozen(conn, own.filters, own.upto), own.plan


def _page(conn: connection, job: Job, databases: Mapping[str, str]) -> list[Attempt]:
    of_set, values = job.events.condition()
    of_kind, more = condition(job.kind, databases)
    statement = sql.SQL(_PAGE).format(columns=sql.SQL(COLUMNS), set=of_set, condition=of_kind)
    found = rows(conn, statement, values | more | {"done_to": job.done_to, "most": _batch_limit(job)})
    return [attempt_of(row) for row in found]


def _batch_limit(job: Job) -> int:
    return min(MAX_EVENTS, job.rate or MAX_EVENTS)


def _forget(job: Job, databases: Mapping[str, str], names: Iterable[str]) -> None:
    """Remove staged requests; in an unreachable database the writer drops them after an hour."""
    for name in names:
        try:
            rehearsals_sql.forget(destination_named(databases, name), job.uuid)
        except InfrastructureError:
            continue


def result_of(found: AttemptState) -> tuple[str, str]:
    """Return an event's outcome, and the reason if it would not land."""
    if found.outcome in {results_sql.LANDED, results_sql.DUPLICATE}:
        return str(found.outcome), ""
    outcome = results_sql.FAILED if found.outcome == "parked" else str(found.outcome)
    return outcome, sentence_of(orjson.loads(found.reason or "{}"))


def _failed(results: Mapping[tuple[str, str], int]) -> int:
    return sum(n for (outcome, _), n in results.items() if outcome == results_sql.FAILED)


def _samples(conn: connection, load: Load, found: Sequence[AttemptState], known: Snapshot) -> str:
    """Return some masked events with their outcomes."""
    some = sorted(found)[:SAMPLES]
    values = load([f.id for f in some]).values
    names = dict(rows(conn, sql.SQL(_NAMES), {"events": [f.id for f in some]}))
    shown = [
        {
            "event": f.id,
            "outcome": result_of(f)[0],
            "row": masked(values.get(f.id), known.personal_of(names[f.id])),
        }
        for f in some
    ]
    return orjson.dumps(shown).decode()


def _execute(conn: connection, progress: Mapping[str, Any]) -> None:
    with conn.cursor() as cur:
        cur.execute(_PROGRESS, progress)
