"""Too many or too large headers: writer and audit, which share no code, classify records alike."""

import pytest
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import ConsumerRecord

from services.ops import kafka_logs
from services.ops.audit.classify import Kind, classify
from services.writer.model.routes import Routes
from services.writer.sort.sort import sort
from shared import wire
from shared.kafka_read import fetch
from shared.kafka_read.log_batches import committed
from shared.kafka_read.offsets import Range
from shared.kafka_read.record_headers import headers_of
from shared.kafka_read.records import LARGE, Headers
from shared.kafka_read.varints import as_varint
from tests.fixtures.writer import CONTEXT, PARTITION, event
from tests.unit.kafka_read.batches import batch

_Headers = list[tuple[str, bytes | None]]
_US: _Headers = list(CONTEXT)
_TIME: _Headers = [(wire.HEADER_RECEIVED_AT, b"2026-11-21T08:00:00Z")]
_OTHERS: _Headers = [(wire.HEADER_CONTEXT, b'{"consumer":{"type":"other"}}')]
_MAX = wire.MAX_HEADERS


def _named(count: int) -> _Headers:
    return [(f"x{n}", b"") for n in range(count)]


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        (_US + _named(_MAX - 1), Kind.ENVELOPE),
        (_US + _named(_MAX), Kind.UNROUTABLE),
        (_named(_MAX) + _US, Kind.UNROUTABLE),
        (_US + _TIME + [("x", None)] * (_MAX - 2), Kind.ENVELOPE),
        (_US + _TIME + [("x", None)] * (_MAX - 1), Kind.UNROUTABLE),
        (_US * _MAX, Kind.ENVELOPE),
        (_US * (_MAX + 1), Kind.UNROUTABLE),
        (_OTHERS + _named(_MAX - 1), Kind.FILTERED),
        (_OTHERS + _named(_MAX), Kind.UNROUTABLE),
        (_named(_MAX), Kind.FILTERED),
        (_named(10_000), Kind.UNROUTABLE),
        ([*_US, (wire.HEADER_RECEIVED_AT, b"x" * wire.MAX_HEADER_BYTES)], Kind.UNROUTABLE),
        ([(wire.HEADER_CONTEXT, LARGE), *_named(_MAX - 1)], Kind.FILTERED),
        ([(wire.HEADER_CONTEXT, LARGE), *_named(_MAX)], Kind.UNROUTABLE),
        ([*_US, (wire.HEADER_CONTEXT, None)], Kind.FILTERED),
    ],
)
def test_writer_and_audit_read_the_same_of_headers(headers: _Headers, kind: Kind) -> None:
    data = batch(0, [event("a")], headers=headers)
    assert (_audit_says(data), _writer_says(data)) == (kind, kind)


def _audit_says(data: bytes) -> Kind:
    [record] = MemoryRecords(data).next_batch()
    read = ConsumerRecord("events.x", 0, 0, 0, 0, None, record.value, None, 0, 0, record.headers)
    return classify(kafka_logs._record(read)).kind


def _writer_says(data: bytes) -> Kind:
    [arrived] = fetch._slices([(Range("", PARTITION, 0, 1), committed(data, 0))])
    wanted = arrived.wanted()
    if not len(wanted):
        return Kind.FILTERED
    [found] = sort([wanted], Routes("onramp"))
    return Kind.UNROUTABLE if found.unroutable else Kind.ENVELOPE


def test_headers_over_the_limit_are_not_parsed() -> None:
    written = as_varint(_MAX + 1) + b"these are no headers at all"
    assert headers_of(written) == Headers(LARGE, None)
