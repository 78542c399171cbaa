"""Headers of parked events name the event and the database error, and contain no value of the payload."""

from typing import Any

import orjson
import pytest

from services.ops.findings import Source
from services.ops.kafka_logs import LogRecord
from services.ops.parked.records import parked
from shared import wire
from shared.kafka_read.identity import identities
from tests.fixtures.writer import Kept, arrivals, envelope, event, records
from tests.integration.admin.conftest import Stage

ORIGIN = {"received_at": "2026-11-21T08:00:01.000000Z", "timestamp": "2026-11-21T08:00:02.000000Z"}
SECRET = "hunter2"


def _kept(stage: Stage) -> dict[int, Kept]:
    """The stage's own records of the topic, by offset."""
    topic = stage.partition.topic
    ours = [r for r in records(stage.bootstrap, wire.USER_ERRORS) if "onramp-error" in r.headers]
    kept = [r for r in ours if r.error["topic"] == topic]
    return {r.error["offset"]: r for r in kept}


def _reason(kept: Kept, *fields: str) -> dict[str, Any]:
    assert SECRET not in kept.headers["onramp-error"].decode()
    return {field: kept.error[field] for field in fields}


def _packet(table: str, *destinations: dict[str, Any], **data: Any) -> bytes:
    named = [{"type": "postgres", "vanity": "onramp", "schema": "events", "table": table}, *destinations]
    return orjson.dumps({"pipeline_context": {"destinations": named}, "data": data})


def test_a_row_that_its_table_rejects(stage: Stage) -> None:
    bad = envelope("e-1", stage.name, b'{"secret":"hunter2 \\u0000"}', version="é1")
    first = stage.settle(event("e-0", stage.name), bad)
    reason = _kept(stage)[first + 1]
    assert _reason(reason, "sqlstate", "column", "constraint", "code") == {
        "sqlstate": "22P05", "column": "payload", "constraint": None, "code": "data_rejected",
    }  # fmt: skip
    assert _reason(reason, "id", "event_name", "version", "typed", "topic_id", *ORIGIN) == {
        "id": "e-1", "event_name": stage.name, "version": "\\xe91", "typed": False,
        "topic_id": stage.topic_id, **ORIGIN,
    }  # fmt: skip


def test_a_typed_row_names_its_constraint_and_its_column(stage: Stage) -> None:
    table = f"typed_{stage.name}"
    check = "n int CONSTRAINT small CHECK (n < 9)"
    stage.execute(f"CREATE TABLE events.{table} (id text PRIMARY KEY, {check}, at timestamptz)")
    first = stage.settle(
        _packet(table, id="a", n=1),
        _packet(table, id=SECRET, n=10),
        _packet(table, id=SECRET, n=SECRET),
        _packet(table, id=SECRET, extra=1),
    )
    kept = _kept(stage)
    fields = ("sqlstate", "column", "constraint", "typed", "id", "destination")
    said = {offset - first: tuple(_reason(kept[offset], *fields).values()) for offset in kept}
    rest = (True, None, f"onramp.events.{table}")
    assert said == {
        1: ("23514", None, "small", *rest),
        2: ("22P02", "n", None, *rest),
        3: ("42703", "extra", None, *rest),
    }


def test_event_parked_without_a_database_error_has_its_origin_and_no_sqlstate(stage: Stage) -> None:
    refused = {"type": "lake"}
    named = orjson.loads(event("e-7", stage.name, secret=SECRET)) | {
        "pipeline_context": {"destinations": [refused]}
    }
    first = stage.settle(b"no json hunter2", orjson.dumps(named))
    kept = _kept(stage)
    fields = ("id", "event_name", "typed", "sqlstate", "topic_id", *ORIGIN)
    nobody = {"typed": None, "sqlstate": None, "topic_id": stage.topic_id, **ORIGIN}
    assert _reason(kept[first], *fields) == {"id": None, "event_name": None, **nobody}
    assert _reason(kept[first + 1], *fields) == {"id": "e-7", "event_name": stage.name, **nobody}


@pytest.mark.parametrize("header", [b"\xff", b"0000-01-01T00:00:00Z", b"hunter2"])
def test_a_foreign_header_is_not_repeated(header: bytes) -> None:

    (identity,) = identities(arrivals([b""], received_at=[header]), [None], [None], [None])
    assert SECRET not in str(identity)
    assert identity.received_at is not None


def test_records_without_the_optional_fields_are_read() -> None:
    told = b'{"code":"no_envelope","step":"sort","topic":"t","partition":0,"offset":1,"destination":""}'
    record = LogRecord(
        source=Source(wire.USER_ERRORS, 0),
        offset=0,
        timestamp=0,
        key=b"t/0/1/",
        value=b"x",
        header_count=1,
        headers={"onramp-error": told},
    )
    found = parked(record)
    assert found is not None
    assert (found.code, found.reason.get("sqlstate")) == ("no_envelope", None)
