"""The audit classifies records of a source's topic with its own code: changes, and nothing else."""

import asyncio
import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from services.ops.audit.audit_data import AuditData, DatabaseData
from services.ops.audit.classify import Kind, classify
from services.ops.audit.lost_events import Reading
from services.ops.audit.reading_result import ReadingResult
from services.ops.audit.replays import Edits
from services.ops.audit.settled_log import SettledLog
from services.ops.audit.topic_generations import ReadableRange
from services.ops.findings import Generation, Source
from services.ops.kafka_logs import LogRecord
from shared import wire
from tests.fixtures.changes import Stream

CHANGE = Stream().insert(id=1).values[0]
END = b'{"status":"END","id":"7:9","event_count":1}'


def _record(value: bytes, topic: str) -> LogRecord:
    headers = {wire.HEADER_CONTEXT: wire.CONTEXT_BYTES}
    return LogRecord(
        source=Source(topic, 0), offset=0, timestamp=0, key=None, value=value, headers=headers, header_count=1
    )


def _kind(value: bytes, topic: str) -> Kind:
    return classify(_record(value, topic), topic).kind


@pytest.mark.parametrize("value", [CHANGE, END])
def test_a_change_is_one_on_a_sources_topic_alone(value: bytes) -> None:
    assert _kind(value, Stream().topic) is Kind.CHANGE
    assert _kind(value, "events.order_placed") is Kind.UNROUTABLE


def test_incomplete_change_on_a_source_topic_is_unroutable() -> None:
    assert _kind(b'{"op":"c"}', Stream().topic) is Kind.UNROUTABLE


def _read_beside_retired(*retired: str, published: list[str]) -> ReadingResult:
    """Read a change of the source `erp` again, which was published to these databases one after the other."""
    topic = "cdc.erp-public-t"
    generation = Generation("t", Source(topic, 0))
    log = SettledLog(retired=set(retired))
    for database in published:
        routes = {"default_database": "shop", "sources": [{"name": "erp", "database": database}]}
        log.apply(f"routes/{database}".encode(), json.dumps(routes).encode())
    data = AuditData(
        databases={
            "shop": DatabaseData(
                ledger={generation: 1},
                totals={},
                outbox=frozenset(),
                waiting=frozenset(),
                counts={},
                repeated=(),
            )
        },
        settled=log,
        group={},
        parked={},
        diverted={},
        markers={},
        spans={},
        closed=dict.fromkeys(retired),
    )

    async def records() -> AsyncIterator[LogRecord]:
        yield _record(CHANGE, topic)

    snapshot: Any = SimpleNamespace(database="shop", tables={})
    reading = Reading(data, {"shop": snapshot}, ReadableRange(generation, 0, 1), Edits(None), "shop")
    return asyncio.run(reading.run(records()))


@pytest.mark.parametrize(
    ("retired", "published", "counted", "unjudged"),
    [
        ((), ["shop"], 1, 0),
        (("other",), ["shop"], 1, 0),
        (("lake",), ["lake"], 0, 0),
        (("lake",), ["lake", "shop"], 0, 1),
    ],
)
def test_a_change_of_a_source_that_was_published_to_a_retired_database_is_no_gap(
    retired: tuple[str, ...], published: list[str], counted: int, unjudged: int
) -> None:
    result = _read_beside_retired(*retired, published=published)
    assert (result.pairs, result.events_unjudged, result.unjudged.total()) == (counted, unjudged, unjudged)
