"""The audit reads a source's topic by itself: a change is one event, and an envelope there is none."""

import pytest

from services.admin.audit.classify import Kind, classify
from services.admin.findings import Source
from services.admin.kafka_logs import LogRecord
from shared import wire
from tests.fixtures.changes import Stream

CHANGE = Stream().insert(id=1).values[0]
END = b'{"status":"END","id":"7:9","event_count":1}'


def _kind(value: bytes, topic: str) -> Kind:
    headers = {wire.HEADER_CONTEXT: wire.CONTEXT_BYTES}
    record = LogRecord(
        source=Source(topic, 0), offset=0, timestamp=0, key=None, value=value, headers=headers, header_count=1
    )
    return classify(record, topic).kind


@pytest.mark.parametrize("value", [CHANGE, END])
def test_a_change_is_one_on_a_sources_topic_alone(value: bytes) -> None:
    assert _kind(value, Stream().topic) is Kind.CHANGE
    assert _kind(value, "events.order_placed") is Kind.UNROUTABLE


def test_what_is_no_change_goes_nowhere() -> None:
    assert _kind(b'{"op":"c"}', Stream().topic) is Kind.UNROUTABLE
