"""The route of a good event to compare with a group's bad ones: the type's newest that is not parked."""

from typing import Any, Final

import orjson
from fastapi import FastAPI

from services.admin.api.operators import Caller
from services.admin.api.problems import not_stored
from services.admin.api.queries import Id
from services.admin.api.rights import Asking
from services.admin.samples_api.newest import newest_records
from services.admin.store import read_sql
from services.admin.store.control_sql import transaction
from services.ops.kafka_logs import LogRecord
from services.ops.registry.registry_reader import RegistryReader
from shared.mask import masked

#: Newest records that are searched; a type whose events all fail has no good one.
_SEARCHED: Final = 200


def good_event(dsn: str, desk: RegistryReader, number: int, asking: Caller) -> dict[str, Any]:
    """Return the newest event of a group's type that is not parked, as its shape; or None.

    Raises `UserError` NOT_STORED, and `InfrastructureError` if Kafka cannot be read.
    """
    with transaction(dsn) as conn:
        group = read_sql.group(conn, number, asking.only)
    if group is None:
        raise not_stored("group")
    name = group.cause.event_name
    snapshot = desk.read().snapshot
    records = newest_records(desk, snapshot.topic_of(name), _SEARCHED) if name else []
    of_type = [record for record in records if _name_of(record) == name]
    with transaction(dsn) as conn:
        parked = read_sql.parked_places(conn, [(*r.source, r.offset) for r in of_type])
    good = next((r for r in of_type if (*r.source, r.offset) not in parked), None)
    shown = None
    if good is not None:
        place = {"topic": good.source.topic, "partition": good.source.partition, "offset": good.offset}
        shown = place | {"time_ms": good.timestamp, "shape": masked(good.value, snapshot.personal_of(name))}
    return {"good": shown, "searched": len(of_type)}


def _name_of(record: LogRecord) -> object:
    try:
        document = orjson.loads(record.value or b"")
    except orjson.JSONDecodeError:
        return None
    return document.get("event_name") if isinstance(document, dict) else None


def add_good(app: FastAPI, dsn: str, desk: RegistryReader) -> None:
    """Add the route."""

    @app.get("/v1/groups/{number}/good")
    def show_good(number: Id, asking: Asking) -> dict[str, Any]:
        """The newest event of the group's type that is not parked, as its shape, to compare with."""
        return good_event(dsn, desk, number, asking)
