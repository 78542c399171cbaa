"""Stored jobs: action, set of events, actor, reason and progress."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import orjson
from psycopg2 import sql
from psycopg2.extensions import connection

from services.admin.store.read_sql import MATCHES, Filters, Only
from services.admin.store.sets_sql import EventSet, rows
from shared.errors import IDEMPOTENCY_KEY_REUSED, SET_CHANGED, UserError

#: The columns of `Job`.
JOB: Final = """
    SELECT id, kind, filters::text, upto, actor, reason, rate, state, counted, done_to, changed, created_at,
           finished_at, uuid::text, walked, failed, waits, fix::text, is_edited, "to",
           with_triggers, rehearsed, samples::text
    FROM onramp_admin.jobs
"""
#: Condition on a job: the patterns of event names match every event of its set.
_NAMED: Final = MATCHES.replace("event_name", "filters ->> 'event_name'").replace("%s", "%(only)s")
_WITHIN: Final = f"""
    (%(only)s::text[] IS NULL OR filters::jsonb -> 'only' <@ to_jsonb(%(only)s::text[]) OR {_NAMED})
"""
_FILTERS: Final = {
    "kind": "kind = %(kind)s",
    "state": "state = %(state)s",
    "group": "filters ->> 'group' = %(group)s::text",
}
_ADD: Final = """
    INSERT INTO onramp_admin.jobs (kind, filters, upto, actor, reason, rate, counted, fix, is_edited, "to",
                                   with_triggers, rehearsed)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) RETURNING id
"""
_CANCEL: Final = """
    UPDATE onramp_admin.jobs SET next_at = now(),
        state = CASE WHEN kind IN ('replay', 'rehearse') THEN 'cancelling' ELSE 'cancelled' END,
        finished_at = CASE WHEN kind NOT IN ('replay', 'rehearse') THEN now() END
    WHERE id = %s AND state = 'running'
"""

#: Locks an actor's key until the end of the transaction.
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 7203155020))"
_FORGET: Final = "DELETE FROM onramp_admin.requests WHERE at < now() - interval '24 hours'"
_FIND_REQUEST: Final = "SELECT sha256, job FROM onramp_admin.requests WHERE actor = %s AND key = %s"
_KEEP_REQUEST: Final = "INSERT INTO onramp_admin.requests (actor, key, sha256, job) VALUES (%s, %s, %s, %s)"


class Plan(NamedTuple):
    """Options of a replay or a rehearsal in addition to landing the parked bytes.

    `fix`: JSON, the steps that edit payloads; `to`: another table (schema.table); `rehearsed`: the rehearsal
    whose plan this is.
    """

    fix: str | None = None
    is_edited: bool = False
    to: str | None = None
    with_triggers: bool = False
    rehearsed: int | None = None

    @property
    def edits_payloads(self) -> bool:
        """Return whether events land with edited payloads."""
        return self.fix is not None or self.is_edited


_AS_IT_IS: Final = Plan()


class Job(NamedTuple):
    """A job and its progress: it has `changed` some of the `counted` events.

    Changed by a replay are events that landed or were there already; `failed` are open again.
    Changed by a rehearsal are events with an answer; `failed` of them would not land.  `waits`: why the job
    pauses at present.
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
    fix: str | None
    is_edited: bool
    to: str | None
    with_triggers: bool
    rehearsed: int | None
    samples: str | None

    @property
    def events(self) -> EventSet:
        """Return the job's set of events."""
        return EventSet(orjson.loads(self.filters), self.upto)

    @property
    def plan(self) -> Plan:
        """Return the job's options."""
        return Plan(self.fix, self.is_edited, self.to, self.with_triggers, self.rehearsed)


def add(
    conn: connection,
    kind: str,
    events: EventSet,
    by: tuple[str, str],
    *,
    rate: int | None,
    counted: int,
    plan: Plan = _AS_IT_IS,
) -> int:
    """Add a job by an actor for a reason; return its id."""
    filters = orjson.dumps(dict(events.filters)).decode()
    with conn.cursor() as cur:
        cur.execute(_ADD, (kind, filters, events.upto, *by, rate, counted, *plan))
        ((job,),) = cur.fetchall()
        return int(job)


def job(conn: connection, number: int, only: Only = None) -> Job | None:
    """Return one job, if all events of its set are visible."""
    found = rows(conn, sql.SQL(f"{JOB} WHERE id = %(id)s AND {_WITHIN}"), {"id": number, "only": only})
    return Job(*found[0]) if found else None


def jobs(
    conn: connection, filters: Filters, after: Sequence[Any] | None = None, limit: int = 50
) -> list[Job]:
    """Return jobs whose events are visible after `after` (an id), the newest first."""
    given = {"only": None, **filters}
    conditions = [_WITHIN, *(_FILTERS[name] for name in given if name in _FILTERS)]
    if after:
        conditions.append("id < %(after)s")
        given["after"] = after[0]
    statement = sql.SQL(f"{JOB} WHERE {' AND '.join(conditions)} ORDER BY id DESC LIMIT %(most)s")
    return [Job(*row) for row in rows(conn, statement, {**given, "most": limit})]


def cancel(conn: connection, number: int) -> bool:
    """End a running job before its next batch; its changes remain.  Return False if it does not run."""
    with conn.cursor() as cur:
        cur.execute(_CANCEL, (number,))
        return bool(cur.rowcount)


def require_as_counted(kind: str, counted: int, expected: int | None) -> None:
    """Raise `UserError` SET_CHANGED if the set is empty, or differs from the expected count."""
    if not counted:
        raise UserError(SET_CHANGED, f"the set has no event that a job could {kind}")
    if expected is not None and expected != counted:
        raise UserError(SET_CHANGED, f"the set has {counted} events, and {expected} were expected")


def started_by(conn: connection, actor: str, key: str, sha256: bytes) -> int | None:
    """Return the job that the actor's request with this key started within 24 hours.

    Raises `UserError` IDEMPOTENCY_KEY_REUSED if that request differed.
    """
    with conn.cursor() as cur:
        cur.execute(_LOCK, (f"{actor}/{key}",))
        cur.execute(_FORGET)
        cur.execute(_FIND_REQUEST, (actor, key))
        found = cur.fetchone()
    if found is None:
        return None
    if bytes(found[0]) != sha256:
        raise UserError(IDEMPOTENCY_KEY_REUSED, f"the key started job {found[1]} by another request")
    return int(found[1])


def keep_request(conn: connection, actor: str, key: str, sha256: bytes, job: int) -> None:
    """Store the job that the request has started."""
    with conn.cursor() as cur:
        cur.execute(_KEEP_REQUEST, (actor, key, sha256, job))
