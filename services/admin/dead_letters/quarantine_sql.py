"""Quarantine of events that the control database refuses, with their SQLSTATE; other events continue.

The cause can be any trigger, constraint or index that an operator has added to the database.
"""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from time import monotonic
from typing import Any, Final

import orjson

from services.admin.store.control_sql import RefusedError, translated
from services.admin.store.ingester_sql import IngesterSession
from services.ops.findings import Source
from services.ops.parked.fingerprint import cause_and_shape
from services.ops.parked.parked_events import StoredEvent

log = logging.getLogger(__name__)

_ADD: Final = """
    INSERT INTO onramp_admin.quarantined (key, sqlstate, event, value) VALUES (%s, %s, %s, %s)
    ON CONFLICT (key) DO UPDATE SET sqlstate = excluded.sqlstate
"""
#: In random order: there may be more than fit into one retry.
_KEYS: Final = "SELECT key FROM onramp_admin.quarantined ORDER BY random()"
_TRY_SECONDS: Final = 10.0
_READ: Final = "SELECT event, value FROM onramp_admin.quarantined WHERE key = %s"
_REMOVE: Final = "DELETE FROM onramp_admin.quarantined WHERE key = %s"
_PLAIN: Final = (
    "topic_id",
    "topic",
    "partition",
    "offset",
    "destination",
    "code",
    "event_id",
    "version",
    "reason",
)


def keep(session: IngesterSession, events: Sequence[StoredEvent], next_offsets: Mapping[Source, int]) -> int:
    """Store `events` and quarantine those that the database refuses; return how many were new.

    Refused events are found by bisection.  Raises `InfrastructureError`.
    """
    try:
        return session.keep(events, next_offsets)
    except RefusedError as e:
        kept = 0
        if len(events) > 1:
            middle = len(events) // 2
            kept = keep(session, events[:middle], {}) + keep(session, events[middle:], {})
        else:
            for event in events:
                _quarantine(session, event, e.sqlstate)
        session.keep([], next_offsets)
        return kept


def try_again(session: IngesterSession) -> int:
    """Retry quarantined events; return how many remain quarantined.

    Raises `InfrastructureError`.
    """
    until = monotonic() + _TRY_SECONDS  # new events wait meanwhile
    for (key,) in _rows(session, _KEYS):
        if monotonic() > until:
            break
        for event, value in _rows(session, _READ, key):
            try:
                session.keep([_event(bytes(event), None if value is None else bytes(value))], {})
            except RefusedError:
                continue
            _rows(session, _REMOVE, key)
    return count(session)


def count(session: IngesterSession) -> int:
    """Return how many events are quarantined.  Raises `InfrastructureError`."""
    ((found,),) = _rows(session, "SELECT count(*) FROM onramp_admin.quarantined")
    return int(found)


def _quarantine(session: IngesterSession, event: StoredEvent, sqlstate: str) -> None:
    log.error(
        "control database refused an event, which is quarantined in onramp_admin.quarantined: look for a "
        "trigger, a constraint or an index of your own there; it is retried each hour",
        extra={"event": f"{event.topic}/{event.partition}/{event.offset}", "sqlstate": sqlstate},
    )
    document = {name: getattr(event, name) for name in _PLAIN} | {"parked_at": event.parked_at.isoformat()}
    key = sha256(orjson.dumps(event.key)).digest()
    _rows(session, _ADD, key, sqlstate, orjson.dumps(document), event.value)


def _event(document: bytes, value: bytes | None) -> StoredEvent:
    found = orjson.loads(document)
    cause, shape = cause_and_shape(orjson.loads(found["reason"]), value)
    parked_at = datetime.fromisoformat(found["parked_at"])
    plain = {name: found[name] for name in _PLAIN}
    return StoredEvent(
        **plain, cause=cause, shape=shape, value=value, parked_at=parked_at, event_name=cause.event_name
    )


def _rows(session: IngesterSession, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with translated(), session.conn, session.conn.cursor() as cur:
        cur.execute(statement, values)
        return cur.fetchall() if cur.description else []
