"""Parked events without a writer, stored in the control database of a test."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson

from services.admin.jobs.job_session import JobSession
from services.admin.store import jobs_sql, sets_sql
from services.admin.store.control_sql import transaction
from services.admin.store.ingester_sql import IngesterSession
from services.ops.findings import Source
from services.ops.kafka_logs import LogRecord
from services.ops.parked.parked_events import StoredEvent, stored_event
from shared import wire
from tests.fixtures.fix_postgres import Templates
from tests.fixtures.writer import execute
from tests.integration.admin.conftest import database_beside

TOPIC_ID = "01234567-89ab-cdef-0123-456789abcdef"


def parked(offset: int, value: bytes | None = b"{}", timestamp: int = 0, **reason: Any) -> StoredEvent:
    """An event as the ingester keeps it; `reason`: what its record says beside its place."""
    told = {"topic": "t", "topic_id": TOPIC_ID, "partition": 0, "offset": offset, "code": "x"}
    record = LogRecord(
        source=Source(wire.USER_ERRORS, 0),
        offset=offset,
        timestamp=timestamp,
        key=b"k",
        value=value,
        header_count=1,
        headers={"onramp-error": orjson.dumps(told | {"destination": "onramp.s.t"} | reason)},
    )
    found = stored_event(record)
    assert found is not None
    return found


@contextmanager
def keeping(templates: Templates) -> Iterator[tuple[str, IngesterSession]]:
    """A control database and its ingester."""
    with database_beside(templates.server, templates.control) as dsn:
        session = IngesterSession.open(dsn)
        assert session is not None
        try:
            yield dsn, session
        finally:
            session.close()


def run(dsn: str, kind: str, **filters: Any) -> None:
    """Have a job done."""
    session = JobSession.open(dsn)
    with transaction(dsn) as conn:
        events = sets_sql.frozen(conn, filters)
        jobs_sql.add(conn, kind, events, ("ann", "why"), rate=None, counted=1)
    while session.work():
        execute(dsn, "UPDATE onramp_admin.jobs SET next_at = now()")
    session.close()
