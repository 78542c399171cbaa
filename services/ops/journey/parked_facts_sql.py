"""Facts of the control database about an event: where it is parked, and operators' decisions about it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

import orjson

from services.ops.findings import Source
from services.ops.journey.database_facts_sql import reading
from services.ops.journey.subject import Receipt

CONTROL: Final = "the control database"
_EVENT: Final = """
    SELECT e.topic_id::text, e.topic, e.partition, e."offset", e.destination, e.id, e.group_id, e.event_id,
           e.event_name, e.parked_at, e.reason::text, e.state, e.changed_at, e.failed::text, j.uuid::text
    FROM onramp_admin.events e LEFT JOIN onramp_admin.jobs j ON j.id = e.job
"""
#: The ids of topics, by a skip scan of the index on places, which begins with them.
TOPIC_IDS: Final = """
    WITH RECURSIVE topic (id) AS (
        (SELECT topic_id FROM onramp_admin.parked ORDER BY topic_id LIMIT 1)
        UNION ALL
        SELECT (SELECT topic_id FROM onramp_admin.parked WHERE topic_id > topic.id ORDER BY topic_id LIMIT 1)
        FROM topic WHERE topic.id IS NOT NULL
    )
    SELECT id FROM topic
"""
_BY_RECEIPT: Final = f"""{_EVENT}
    WHERE e.topic_id IN ({TOPIC_IDS}) AND e.topic = %s AND e.partition = %s AND e."offset" = %s
    ORDER BY e.id
"""
#: In a form that only the index of ids can serve.
_BY_ID: Final = f"""{_EVENT}
    WHERE e.event_id >= %s AND e.event_id <= %s ORDER BY e.event_id DESC, e.id DESC LIMIT 100
"""
_JOBS: Final = """
    SELECT uuid::text, id, kind, actor, reason, created_at, fix IS NOT NULL OR is_edited
    FROM onramp_admin.jobs WHERE uuid = ANY (%s::uuid[])
"""
_CONSUMED: Final = "SELECT topic, partition, next_offset FROM onramp_admin.consumed"
_PREPARED: Final = "SELECT to_regclass('onramp_admin.events') IS NOT NULL"


class StoredParked(NamedTuple):
    """A stored parked event, its state, and the UUID of the job that changed the state last."""

    topic_id: str
    receipt: Receipt
    destination: str
    number: int
    group: int
    event_id: str | None
    event_name: str | None
    parked_at: datetime
    reason: dict[str, Any]
    state: str
    changed_at: datetime | None
    failed: dict[str, Any] | None
    job: str | None


class JobFacts(NamedTuple):
    """A job: who started it, and why.  `is_fixed`: it edits payloads."""

    number: int
    kind: str
    actor: str
    reason: str
    at: datetime
    is_fixed: bool


@dataclass(slots=True)
class ParkedFacts:
    """The stored events, and all jobs that they or `attempts` name, by UUID."""

    events: list[StoredParked] = field(default_factory=list)
    jobs: dict[str, JobFacts] = field(default_factory=dict)
    #: The next offset of each partition of `onramp.user_errors` that is not stored.
    consumed: dict[Source, int] = field(default_factory=dict)
    #: Whether this database has the admin service's schema.
    is_prepared: bool = True


def by_receipt(dsn: str, receipt: Receipt) -> ParkedFacts:
    """Return the stored events with this receipt, of all topic generations.  Raises `InfrastructureError`."""
    return _facts(dsn, _BY_RECEIPT, (*receipt.source, receipt.offset))


def by_id(dsn: str, event_id: str) -> ParkedFacts:
    """Return the last hundred stored events with this id.  Raises `InfrastructureError`."""
    return _facts(dsn, _BY_ID, (event_id, event_id))


def jobs(dsn: str, uuids: Sequence[str]) -> dict[str, JobFacts]:
    """Return jobs by UUID.  Raises `InfrastructureError`."""
    with reading(CONTROL, dsn) as conn, conn.cursor() as cursor:
        cursor.execute(_JOBS, (list(uuids),))
        return {uuid: JobFacts(*row) for uuid, *row in cursor.fetchall()}


def _facts(dsn: str, statement: str, values: Sequence[Any]) -> ParkedFacts:
    with reading(CONTROL, dsn) as conn, conn.cursor() as cursor:
        cursor.execute(_PREPARED)
        if cursor.fetchone() != (True,):
            return ParkedFacts(is_prepared=False)
        cursor.execute(statement, values)
        events = [_event(row) for row in cursor.fetchall()]
        cursor.execute(_JOBS, ([event.job for event in events if event.job],))
        of_events = {uuid: JobFacts(*row) for uuid, *row in cursor.fetchall()}
        cursor.execute(_CONSUMED)
        consumed = {Source(topic, partition): offset for topic, partition, offset in cursor.fetchall()}
    return ParkedFacts(events, of_events, consumed)


def _event(row: tuple[Any, ...]) -> StoredParked:
    topic_id, topic, partition, offset, destination, *rest = row
    number, group, event_id, event_name, parked_at, reason, state, changed_at, failed, job = rest
    return StoredParked(
        topic_id,
        Receipt(Source(topic, partition), offset),
        destination,
        number,
        group,
        event_id,
        event_name,
        parked_at,
        orjson.loads(reason),
        state,
        changed_at,
        failed and orjson.loads(failed),
        job,
    )
