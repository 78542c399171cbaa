"""Outcomes of a job's events, counted by outcome and cause: a million failures have a few causes."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

import orjson
from psycopg2.extensions import connection
from psycopg2.extras import execute_values

from services.admin.attempts import AttemptState
from services.ops.parked.outcome_sentence import sentence_of
from shared.transform_replay import DROPPED, EMITTED

LANDED: Final = "landed"
DUPLICATE: Final = "duplicate"
FAILED: Final = "failed"
#: Landed by another job's attempt: the control database was restored since.
LANDED_EARLIER: Final = "landed_earlier"
#: Maximum causes of one job, because clients choose the names in them.
MAX: Final = 100
OTHERS: Final = "other causes"
_LONGEST: Final = 500
_KNOWN: Final = "SELECT outcome, reason FROM onramp_admin.results WHERE job = %s"
_ADD: Final = """
    INSERT INTO onramp_admin.results AS r (job, outcome, reason, events) VALUES %s
    ON CONFLICT (job, outcome, reason) DO UPDATE SET events = r.events + excluded.events
"""
_READ: Final = """
    SELECT outcome, reason, events FROM onramp_admin.results WHERE job = %s ORDER BY events DESC, 1, 2
"""
#: Counts of events by outcome and reason; landed events have no reason.
Results = Mapping[tuple[str, str], int]


def result_of(rehearsed: AttemptState) -> tuple[str, str]:
    """Return the outcome of a rehearsed event, and the reason if a replay would fail."""
    if rehearsed.outcome in {LANDED, DUPLICATE, EMITTED, DROPPED}:
        return str(rehearsed.outcome), ""
    outcome = FAILED if rehearsed.outcome == "parked" else str(rehearsed.outcome)
    return outcome, sentence_of(orjson.loads(rehearsed.reason or "{}"))


def add(conn: connection, job: int, found: Results) -> None:
    """Add `found` to the results of the job, whose row the caller has locked."""
    if not found:
        return
    cut: Counter[tuple[str, str]] = Counter()
    for (outcome, reason), events in found.items():
        cut[outcome, _stored(reason)] += events
    with conn.cursor() as cur:
        cur.execute(_KNOWN, (job,))
        rows = [(job, *key, events) for key, events in _bounded(cut, set(cur.fetchall())).items()]
        execute_values(cur, _ADD, rows)


def read(conn: connection, job: int) -> list[tuple[str, str, int]]:
    """Return outcomes and reasons with their counts, the largest first."""
    with conn.cursor() as cur:
        cur.execute(_READ, (job,))
        return cur.fetchall()


def _bounded(found: Results, known: set[tuple[str, str]]) -> Results:
    """Return `found` with causes beyond the limit counted as others."""
    bounded: Counter[tuple[str, str]] = Counter()
    for (outcome, reason), events in found.items():
        if (outcome, reason) in known or len(known) < MAX:
            known.add((outcome, reason))
            bounded[outcome, reason] += events
        else:
            bounded[outcome, OTHERS] += events
    return bounded


def _stored(reason: str) -> str:
    return reason.replace("\0", "\\0")[:_LONGEST]
