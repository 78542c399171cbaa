"""Rehearsals in a destination database: staged requests, and the writer's answers."""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from psycopg2 import Binary
from psycopg2.extras import execute_values

from services.admin.attempts import Attempt, AttemptState, Destination
from services.admin.store import staging_sql
from services.admin.store.bytes_sql import Loaded
from services.admin.store.staging_sql import KEYS, Load, columns, in_destination
from shared.errors import OnrampError

#: Maximum rows of one statement, whose values are in memory.
_AT_ONCE: Final = 500
_STATES: Final = f"""
    WITH k AS MATERIALIZED ({KEYS})
    SELECT k.id, r.outcome, r.reason::text, r.job IS NOT NULL, NULL, r.row_text
    FROM k LEFT JOIN onramp.rehearsals r ON r.job = %s
        AND (r.topic_id, r.partition, r."offset", r.destination)
        = (k.topic_id, k.partition, k."offset", k.destination)
"""  # noqa: S608 - our own words
_ASK: Final = """
    INSERT INTO onramp.rehearsals (job, topic_id, topic, partition, "offset", destination, "to", value,
                                   received_at, timestamp, with_triggers, shows_row)
    VALUES %s ON CONFLICT DO NOTHING
"""
_FORGET: Final = "DELETE FROM onramp.rehearsals WHERE job = %s"


class Question(NamedTuple):
    """Its job (UUID), its table, whether triggers may run, and the events to show as rows."""

    job: str
    to: str | None
    with_triggers: bool
    shown: Collection[int] = ()


def ask(where: Destination, asked: Question, attempts: Sequence[Attempt], load: Load) -> list[AttemptState]:
    """Return the answers about `attempts`; stage those that are neither staged nor answered.

    An attempt without readable bytes fails with that reason.  Raises `InfrastructureError`.
    """
    with in_destination(where) as cur:
        cur.execute(_STATES, (*columns(attempts), asked.job))
        found = [AttemptState(*row) for row in cur.fetchall()]
        known = {f.id for f in found if f.staged}
        missing = [a for a in attempts if a.id not in known]
        lost: dict[int, OnrampError] = {}
        while part := staging_sql.first_part(missing, _AT_ONCE):
            loaded = load([a.id for a in part])
            lost |= loaded.lost
            not_asked = loaded.lost.keys() | loaded.later
            rows = [_row(asked, a, loaded) for a in part if a.id not in not_asked]
            if rows:
                execute_values(cur, _ASK, rows, page_size=len(rows))
            missing = [a for a in part if a.id in loaded.later] + missing[len(part) :]
    return [staging_sql.lost(f, lost[f.id]) if f.id in lost else f for f in found]


def forget(where: Destination, job: str) -> None:
    """Remove the job's staged requests.  Raises `InfrastructureError`."""
    with in_destination(where) as cur:
        cur.execute(_FORGET, (job,))


def _row(asked: Question, a: Attempt, loaded: Loaded) -> tuple[object, ...]:
    of_event = (a.topic_id, a.topic, a.partition, a.offset, a.destination)
    value = loaded.values.get(a.id)
    given = None if value is None else Binary(value)
    times = loaded.times[a.id]
    return asked.job, *of_event, asked.to, given, *times, asked.with_triggers, a.id in asked.shown
