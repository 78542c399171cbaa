"""The columns that are made of whole batches, against aiokafka's reader of single records."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given, settings
from hypothesis import strategies as st

from shared import wire
from shared.kafka_read.decompress import CorruptBatchError
from shared.kafka_read.log_batches import LogBatch, committed
from shared.kafka_read.record_columns import columns
from shared.kafka_read.record_headers import headers_of
from shared.kafka_read.records import FIRST_MS, LAST_MS, Headers
from tests.fixtures.writer import CONTEXT
from tests.unit.kafka_read.batches import batch, changed, with_deltas

EVERYTHING = (0, 1 << 62)
_names = st.sampled_from(
    [
        wire.HEADER_CONTEXT,
        wire.HEADER_RECEIVED_AT,
        wire.HEADER_PRODUCER,
        wire.HEADER_TRACEPARENT,
        "",
        "xontext",
    ]
)
_values = st.none() | st.binary(max_size=40) | st.just(wire.CONTEXT_BYTES) | st.just(b"t" * 70)
_header = st.tuples(_names, _values)
_gateway = st.just(
    [(wire.HEADER_CONTEXT, wire.CONTEXT_BYTES), (wire.HEADER_RECEIVED_AT, b"2026-11-21T08:00:00Z")]
)
_headers = (
    st.lists(_header, max_size=5)
    | _gateway
    | st.builds(lambda usual, more: [*usual, *more], _gateway, st.lists(_header, max_size=3))
)
_batch = st.tuples(
    st.lists(st.none() | st.binary(max_size=300), min_size=1, max_size=5),
    _headers,
    st.none() | st.binary(max_size=200),
    st.sampled_from([0, 1, 2, 3, 4]),
)


def _columns(batches: Sequence[LogBatch], first: int, end: int) -> tuple[pa.RecordBatch, list[int]]:
    count = len(batches)
    rows, sizes = columns(batches, np.full(count, first), np.full(count, end))
    rows.validate(full=True)
    return rows, sizes.tolist()


@settings(deadline=None)
@given(st.lists(_batch, min_size=1, max_size=4), st.integers(0, 5), st.integers(0, 20))
def test_each_record_is_read_as_by_a_reader_of_records(
    written: list[tuple[list[bytes | None], list[tuple[str, bytes | None]], bytes | None, int]],
    first: int,
    end: int,
) -> None:
    data, offset = b"", 0
    for values, headers, key, codec in written:
        data += batch(offset, values, headers=headers, key=key, codec=codec)
        offset += len(values)
    rows, sizes = _columns(committed(data, 0).batches, first, end)
    expected, records = [], MemoryRecords(data)
    while (one := records.next_batch()) is not None:
        for record in one:
            if first <= record.offset < end:
                context, received_at = Headers.of(dict(record.headers))
                value = None if context is None else record.value
                expected.append((record.offset, value, received_at, record.timestamp, context))
    times = rows.column("timestamp").cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    names = ("offset", "value", "received_at", "context")
    read = [rows.column(n).to_pylist() for n in names]
    assert list(zip(read[0], read[1], read[2], times.to_pylist(), read[3], strict=True)) == expected
    assert sum(sizes) == len(expected)
    assert len(sizes) == len(written)


def test_range_outside_the_batch_yields_no_rows() -> None:
    rows, sizes = _columns(committed(batch(0, [b"a", b"b"]), 0).batches, 5, 9)
    assert (rows.num_rows, sizes) == (0, [0])


@pytest.mark.parametrize("time", [-(2**63), FIRST_MS - 1, LAST_MS + 1, 2**63 - 1])
def test_timestamp_out_of_range_becomes_the_nearest_valid_time(time: int) -> None:
    [found] = committed(batch(0, [b"a"]), 0).batches
    for odd in (found._replace(append_time=time), found._replace(first_timestamp=time)):
        rows, _ = _columns([odd], *EVERYTHING)
        [told] = rows.column("timestamp").cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
        assert told == (FIRST_MS if time < 0 else LAST_MS)


BACK, TWICE, AHEAD = (0, -5), (0, 0), (0, 2**31 - 1)


@pytest.mark.parametrize("deltas", [BACK, TWICE, AHEAD])
def test_the_offsets_that_kafka_gave_count_and_not_what_a_producer_wrote(deltas: tuple[int, int]) -> None:
    data = batch(5, [b"a"] * 5) + with_deltas(batch(10, [b"b", b"c"]), deltas) + batch(12, [b"z"])
    rows, sizes = _columns(committed(data, 5).batches, 0, 13)
    assert rows.column("offset").to_pylist() == list(range(5, 13))
    assert sizes == [5, 2, 1]


def test_records_left_by_compaction_keep_their_offsets() -> None:
    left = changed(with_deltas(batch(10, [b"b", b"c"]), (2, 7)), last_offset_delta=9)
    rows, _ = _columns(committed(batch(9, [b"a"]) + left + batch(20, [b"z"]), 0).batches, *EVERYTHING)
    assert rows.column("offset").to_pylist() == [9, 12, 17, 20]


@pytest.mark.parametrize("deltas", [BACK, TWICE, (7, 2), (0, 10)])
def test_offsets_of_another_batch_are_refused(deltas: tuple[int, int]) -> None:
    left = changed(with_deltas(batch(10, [b"b", b"c"]), deltas), last_offset_delta=9)
    with pytest.raises(CorruptBatchError, match="unordered"):
        _columns(committed(left, 0).batches, *EVERYTHING)


def _payload(**changes: int) -> LogBatch:
    """A batch of one record with some changed bytes and a valid checksum."""
    [found] = committed(batch(7, [b"v" * 20], headers=CONTEXT, key=b"key"), 7).batches
    payload = bytearray(found.payload)
    for place, byte in changes.items():
        payload[int(place[1:])] = byte
    return found._replace(payload=bytes(payload))


def test_the_bytes_of_a_record_stand_where_this_test_thinks() -> None:
    payload = bytes(_payload().payload)
    assert ((payload[0] & 0x7F) | payload[1] << 7) == 2 * (len(payload) - 2)
    assert payload[5] == 2 * len(b"key")
    assert payload[9] == 2 * 20
    assert payload[30] == 2 * len(CONTEXT)


@pytest.mark.parametrize(
    "changes",
    [
        {"_0": 0xFF, "_1": 0x7F},  # longer than its batch
        {"_0": 2, "_1": 0},  # shorter
        {"_5": 2 * 60},  # a key beyond its record
        {"_5": 0xFE, "_6": 0xFF, "_7": 0xFF, "_8": 0x7F},  # a key beyond everything
        {"_9": 2 * 63},  # a value beyond it
        {"_9": 0xFE, "_10": 0xFF, "_11": 0xFF, "_12": 0x7F},  # a value beyond everything
        {"_30": 60},  # more headers than there are
        {"_30": 0},  # bytes behind the last header
        {"_31": 2 * 63},  # a header's name beyond it
    ],
)
def test_fields_that_do_not_add_up_are_refused(changes: dict[str, int]) -> None:
    with pytest.raises(CorruptBatchError):
        _columns([_payload(**changes)], *EVERYTHING)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_headers_as_a_gateway_writes_them_must_be_as_many_as_they_say(count: int) -> None:
    received_at = (wire.HEADER_RECEIVED_AT, b"2026-11-21T08:00:00Z")
    headers = [*CONTEXT, received_at, (wire.HEADER_PRODUCER, b"shop")]
    [found] = committed(batch(7, [b"v" * 20], headers=headers, key=b"key"), 7).batches
    payload = bytearray(found.payload)
    assert payload[30] == 2 * len(headers)
    payload[30] = 2 * count
    with pytest.raises(CorruptBatchError):
        _columns([found._replace(payload=bytes(payload))], *EVERYTHING)


@settings(deadline=None)
@given(st.binary(max_size=120), st.integers(1, 5))
def test_bytes_that_are_no_records_are_refused_or_read_and_nothing_else_happens(
    data: bytes, count: int
) -> None:
    [found] = committed(batch(7, [b"v"]), 7).batches
    try:
        rows, _ = _columns([found._replace(payload=data, records=count)], *EVERYTHING)
    except CorruptBatchError:
        return
    assert rows.num_rows <= count


def _five_bytes(number: int) -> bytes:
    """A varint of 32 bits with one bit more, which Java drops, and so a broker takes it."""
    unsigned = number << 1
    low = bytes((unsigned >> shift & 0x7F) | 0x80 for shift in (0, 7, 14, 21))
    return low + bytes([(unsigned >> 28 & 0x0F) | 0x10])


def test_bits_that_java_drops_halt_nothing() -> None:
    body = b"\0\0\0\x01" + _five_bytes(1) + b"v" + b"\0"
    head = bytearray(batch(0, [b"x"])[:61] + _five_bytes(len(body)) + body)
    head[8:12] = (len(head) - 12).to_bytes(4, "big")
    written = changed(bytes(head))
    with_header = body[:-1] + b"\x02" + _five_bytes(1) + b"n" + _five_bytes(1) + b"h"
    rows, counts = _columns(committed(written, 0).batches, *EVERYTHING)
    assert (rows.column("offset").to_pylist(), counts) == ([0], [1])
    assert headers_of(with_header[-5 - 1 - 5 - 1 - 1 :]) == Headers(None, None)
