"""The tasks' reader: records of any producer are read, and unreadable ranges are refused."""

import asyncio
import secrets
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer

from services.writer.kafka.cluster import Cluster
from shared import wire
from shared.errors import InfrastructureError
from shared.kafka_read.fetch import Fetcher, RangeUnreadableError
from shared.kafka_read.offsets import Partition, Range
from shared.kafka_read.range_reader import RangeReader
from shared.kafka_read.records import LARGE, USUAL, PartitionSlice
from shared.kafka_security import Brokers
from shared.settings import KafkaSettings
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.odd_records import (
    make_topic_of_any_time,
    produce_at,
    produce_batch,
    produce_with_odd_header,
)
from tests.fixtures.writer import CONTEXT, delete_records, event, make_topics, produce
from tests.unit.kafka_read.batches import batch, with_deltas

RECEIVED = (wire.HEADER_RECEIVED_AT, b"2026-11-21T08:00:01.123456+00:00")
SPELLED = (wire.HEADER_CONTEXT, b'{ "consumer": {"type": "data_pipeline"} }')
OTHER = (wire.HEADER_CONTEXT, b'{"consumer":{"type":"other"}}')
NO_VALUE = (wire.HEADER_CONTEXT, None)
EMPTY = (wire.HEADER_CONTEXT, b"")


@pytest.fixture(scope="module")
def reader(kafka: HasBootstrap) -> Iterator[RangeReader]:
    reader = RangeReader(Brokers(kafka.bootstrap))
    yield reader
    reader.close()


@pytest.fixture
def topic(kafka: HasBootstrap) -> str:
    name = f"events.reading_{secrets.token_hex(4)}"
    make_topics(kafka.bootstrap, name, partitions=3)
    return name


def _range(topic: str, number: int, start: int, end: int) -> Range:
    return Range("", Partition(topic, number), start, end)


def _read(reader: RangeReader, ranges: Sequence[Range]) -> list[dict[str, Any]]:
    """The rows of `ranges`, by partition and offset."""
    rows = [row for piece in reader.read(ranges) for each in piece for row in each.rows.to_pylist()]
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))


def test_headers_values_and_times_are_read_as_they_were_written(
    kafka: HasBootstrap, reader: RangeReader, topic: str
) -> None:
    usual = [*CONTEXT, RECEIVED]
    more = [(wire.HEADER_PRODUCER, b"shop"), (wire.HEADER_TRACEPARENT, b"00-1-2-3")]
    long = ("x" * 200, b"y" * 200)
    same_length = [("onramp-received-ta", b"x"), ("xontext", b"x")]
    cases: list[tuple[list[tuple[str, bytes | None]], bytes | None, bytes | None]] = [
        ([], None, None),
        ([*CONTEXT], USUAL, None),
        (usual, USUAL, RECEIVED[1]),
        ([*usual, more[0]], USUAL, RECEIVED[1]),
        ([*usual, *more], USUAL, RECEIVED[1]),
        ([*usual, long, more[0]], USUAL, RECEIVED[1]),
        ([*usual, ("none", None), ("", b"")], USUAL, RECEIVED[1]),
        ([*usual, *same_length], USUAL, RECEIVED[1]),
        ([*usual, *more, *more], USUAL, RECEIVED[1]),
        ([*CONTEXT, (RECEIVED[0], None)], USUAL, None),
        ([*CONTEXT, (RECEIVED[0], b"")], USUAL, b""),
        ([*CONTEXT, (RECEIVED[0], b"t" * 300)], USUAL, b"t" * 300),
        ([SPELLED], SPELLED[1], None),
        ([OTHER, RECEIVED], OTHER[1], RECEIVED[1]),
        ([NO_VALUE, RECEIVED], None, RECEIVED[1]),
        ([EMPTY, RECEIVED], None, RECEIVED[1]),
        ([*usual, EMPTY], None, RECEIVED[1]),
        # Of two with one name the last counts.
        ([OTHER, *CONTEXT], USUAL, None),
        ([*CONTEXT, OTHER], OTHER[1], None),
        ([*usual, OTHER], OTHER[1], RECEIVED[1]),
        ([*usual, *more, OTHER], OTHER[1], RECEIVED[1]),
        ([*usual, more[0], (RECEIVED[0], b"x")], USUAL, b"x"),
        ([RECEIVED, (RECEIVED[0], b"x"), *CONTEXT], USUAL, b"x"),
        ([RECEIVED, *CONTEXT], USUAL, RECEIVED[1]),
        ([more[0], *usual], USUAL, RECEIVED[1]),
    ]
    values = [event("e"), None, b"", b"\xff\x00"]
    for headers, _, _ in cases:
        produce(kafka.bootstrap, topic, values, headers=headers)
    rows = _read(reader, [_range(topic, 0, 0, len(cases) * len(values))])
    expected = [
        (value if context is not None else None, context, received_at)
        for _, context, received_at in cases
        for value in values
    ]
    assert [(r["value"], r["context"], r["received_at"]) for r in rows] == expected
    assert [r["offset"] for r in rows] == list(range(len(rows)))
    assert {(r["topic"], r["partition"]) for r in rows} == {(topic, 0)}
    assert all(abs(datetime.now(UTC) - r["timestamp"]) < timedelta(hours=1) for r in rows)


def _of_size(size: int, context: bytes = wire.CONTEXT_BYTES) -> list[tuple[str, bytes]]:
    return [(wire.HEADER_CONTEXT, context), (wire.HEADER_RECEIVED_AT, b"x" * (size - len(context)))]


def test_headers_that_are_too_large_are_not_carried_and_all_others_are(
    kafka: HasBootstrap, reader: RangeReader, topic: str
) -> None:
    most = wire.MAX_HEADER_BYTES
    padded = wire.CONTEXT_BYTES.ljust(most)
    note = ("note", b"x" * 2 * most)
    usual, none, unread = (USUAL, 6), (None, 6), (LARGE, None)
    cases: list[tuple[list[tuple[str, bytes]], tuple[bytes | None, int | None]]] = [
        (_of_size(most), (USUAL, most - len(wire.CONTEXT_BYTES))),
        (_of_size(most + 1), unread),
        (_of_size(most + 1, OTHER[1]), unread),
        ([(wire.HEADER_CONTEXT, padded)], (padded, None)),
        ([(wire.HEADER_CONTEXT, padded + b" ")], unread),
        ([(wire.HEADER_CONTEXT, padded), (RECEIVED[0], b"x")], unread),
        ([note, *CONTEXT, (RECEIVED[0], b"is it?")], usual),
        ([*CONTEXT, (RECEIVED[0], b"is it?"), note], usual),
        (_of_size(most + 1, b""), (None, None)),
        # Who sends what stands for them between reader and task gets no other verdict by it.
        ([(wire.HEADER_CONTEXT, LARGE), (RECEIVED[0], b"is it?")], none),
        (_of_size(most + 1, LARGE), (None, None)),
    ]
    for headers, _ in cases:
        produce(kafka.bootstrap, topic, [event("e")], headers=headers)
    rows = _read(reader, [_range(topic, 0, 0, len(cases))])
    read = [(row["context"], row["received_at"]) for row in rows]
    assert [(c, None if r is None else len(r)) for c, r in read] == [expected for _, expected in cases]
    assert [row["value"] for row in rows] == [event("e") if c is not None else None for c, _ in read]


def test_a_header_whose_key_is_no_utf8_is_read_as_any_other(
    kafka: HasBootstrap, reader: RangeReader, topic: str
) -> None:
    produce(kafka.bootstrap, topic, [event("before")])
    produce_with_odd_header(kafka.bootstrap, topic, event("odd"), [*CONTEXT, RECEIVED])
    produce_with_odd_header(kafka.bootstrap, topic, event("other"))
    produce(kafka.bootstrap, topic, [event("after")])
    rows = _read(reader, [_range(topic, 0, 0, 4)])
    assert [row["value"] for row in rows] == [event("before"), event("odd"), None, event("after")]
    assert [row["received_at"] for row in rows] == [None, RECEIVED[1], None, None]


def test_record_offsets_ignore_wrong_offset_deltas_of_a_producer(
    kafka: HasBootstrap, reader: RangeReader, topic: str
) -> None:
    produce(kafka.bootstrap, topic, [event("before")])
    for deltas in ((0, 0), (0, -1), (0, 9)):
        assert produce_batch(kafka.bootstrap, topic, with_deltas(batch(0, [b"a", b"b"]), deltas)) == 0
    produce(kafka.bootstrap, topic, [event("after")])
    rows = _read(reader, [_range(topic, 0, 0, 8)])
    assert [row["offset"] for row in rows] == list(range(8))
    assert [row["value"] for row in rows] == [event("before"), *[b"a", b"b"] * 3, event("after")]


TIMES = {
    -(2**63): "1970-01-01T00:00:00Z",
    -(10**16): "1970-01-01T00:00:00Z",
    -1: "1970-01-01T00:00:00Z",  # Kafka's own word for: no time
    -(10**13): "1970-01-01T00:00:00Z",
    0: "1970-01-01T00:00:00Z",
    253_402_300_799_999: "9999-12-31T23:59:59.999Z",
    253_402_300_800_000: "9999-12-31T23:59:59.999Z",
    9 * 10**15: "9999-12-31T23:59:59.999Z",
    2**63 - 1: "9999-12-31T23:59:59.999Z",
}


def test_timestamp_out_of_range_becomes_the_nearest_valid_time(
    kafka: HasBootstrap, reader: RangeReader
) -> None:
    name = f"events.times_{secrets.token_hex(4)}"
    make_topic_of_any_time(kafka.bootstrap, name)
    for milliseconds in TIMES:
        produce_at(kafka.bootstrap, name, milliseconds, event("e"), CONTEXT)
    rows = _read(reader, [_range(name, 0, 0, len(TIMES))])
    assert [row["timestamp"] for row in rows] == [*map(datetime.fromisoformat, TIMES.values())]


def test_where_kafka_says_when_a_record_came_that_counts(kafka: HasBootstrap, reader: RangeReader) -> None:
    name = f"events.append_time_{secrets.token_hex(4)}"
    make_topics(kafka.bootstrap, name, config={"message.timestamp.type": "LogAppendTime"})
    produce_at(kafka.bootstrap, name, 1_000, event("e"), CONTEXT)
    [row] = _read(reader, [_range(name, 0, 0, 1)])
    assert abs(datetime.now(UTC) - row["timestamp"]) < timedelta(hours=1)


def test_a_look_at_single_records_goes_on_fetching_nothing(kafka: HasBootstrap, topic: str) -> None:
    produce(kafka.bootstrap, topic, [event("e-1"), event("e-2")])

    async def look() -> None:
        cluster = await Cluster(KafkaSettings(bootstrap=kafka.bootstrap), "none").start()
        try:
            for offset in (0, 1):
                assert (await cluster.times({Partition(topic, 0): offset})).keys() == {Partition(topic, 0)}
                assert cluster._record_consumer.paused() == cluster._record_consumer.assignment() != set()
        finally:
            await cluster.stop()

    asyncio.run(look())


@pytest.mark.parametrize("codec", ["gzip", "lz4", "snappy", "zstd"])
def test_every_compression_is_read(kafka: HasBootstrap, reader: RangeReader, topic: str, codec: str) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "compression.type": codec})
    for n in range(50):
        producer.produce(topic, value=event(f"e-{n}", pad="x" * 100), headers=CONTEXT, partition=2)
    assert producer.flush(30) == 0
    rows = _read(reader, [_range(topic, 2, 5, 45)])
    assert [(row["offset"], row["value"]) for row in rows] == [
        (n, event(f"e-{n}", pad="x" * 100)) for n in range(5, 45)
    ]


def test_aborted_transactions_are_left_out_and_the_end_is_found_behind_them(
    kafka: HasBootstrap, reader: RangeReader, topic: str
) -> None:
    async def transactions() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=topic)
        other = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap)
        await producer.start()
        await other.start()
        for commits in (True, False, True, False):
            await producer.begin_transaction()
            await producer.send_and_wait(topic, event(f"{commits}"), partition=0, headers=CONTEXT)
            await other.send_and_wait(topic, event("beside"), partition=0, headers=CONTEXT)
            await (producer.commit_transaction() if commits else producer.abort_transaction())
        await producer.stop()
        await other.stop()

    asyncio.run(transactions())
    # Each transaction: its record, one of nobody's transaction, and its marker.
    assert [row["offset"] for row in _read(reader, [_range(topic, 0, 0, 12)])] == [0, 1, 4, 6, 7, 10]
    assert [row["offset"] for row in _read(reader, [_range(topic, 0, 4, 6)])] == [4]


def test_each_range_is_read_from_start_to_end_across_consecutive_reads(
    kafka: HasBootstrap, reader: RangeReader, topic: str
) -> None:
    for partition in (0, 1):
        produce(kafka.bootstrap, topic, [event(f"{n}") for n in range(30)], partition=partition)
    first = [_range(topic, 0, 0, 7)]
    second = [_range(topic, 0, 7, 30), _range(topic, 1, 3, 4), _range(topic, 2, 0, 0)]
    again = [_range(topic, 0, 2, 5), _range(topic, 1, 0, 30)]
    offsets = [
        [(r["partition"], r["offset"]) for r in _read(reader, each)] for each in (first, second, again)
    ]
    assert offsets == [
        [(0, n) for n in range(7)],
        [(0, n) for n in range(7, 30)] + [(1, 3)],
        [(0, n) for n in range(2, 5)] + [(1, n) for n in range(30)],
    ]


def test_records_that_are_larger_than_an_answer_come_whole_and_in_order(
    kafka: HasBootstrap, reader: RangeReader, topic: str
) -> None:
    for partition in (0, 1, 2):
        values = [event(f"{partition}-{n}", pad="x" * 900_000) for n in range(6)]
        produce(kafka.bootstrap, topic, values, partition=partition)
    pieces = list(reader.read([_range(topic, p, 0, 6) for p in (0, 1, 2)]))
    offsets = {p: [o for piece in pieces for each in piece for o in _offsets_of(each, p)] for p in (0, 1, 2)}
    assert offsets == {p: list(range(6)) for p in (0, 1, 2)}
    assert max(sum(each.rows.nbytes for each in piece) for piece in pieces) < 10_000_000


def _offsets_of(piece: PartitionSlice, number: int) -> list[int]:
    return piece.rows.column("offset").to_pylist() if piece.partition.number == number else []


def test_range_with_deleted_records_is_refused(kafka: HasBootstrap, reader: RangeReader, topic: str) -> None:
    produce(kafka.bootstrap, topic, [event(f"{n}") for n in range(9)])
    delete_records(kafka.bootstrap, topic, 0, 5)
    with pytest.raises(RangeUnreadableError, match="may have been lost"):
        _read(reader, [_range(topic, 0, 2, 9)])
    assert [r["offset"] for r in _read(reader, [_range(topic, 0, 5, 9)])] == [5, 6, 7, 8]


def test_missing_offset_or_topic_is_waited_for_and_then_refused(kafka: HasBootstrap, topic: str) -> None:
    produce(kafka.bootstrap, topic, [event("e")])

    async def read(r: Range) -> list[list[PartitionSlice]]:
        fetcher = Fetcher(Brokers(kafka.bootstrap), patience_seconds=0.5)
        await fetcher.start()
        try:
            return [piece async for piece in fetcher.read([r])]
        finally:
            await fetcher.stop()

    with pytest.raises(InfrastructureError, match=f"{topic}/0 .* cannot be read for now"):
        asyncio.run(read(_range(topic, 0, 0, 2)))
    with pytest.raises(InfrastructureError, match="cannot be read for now"):
        asyncio.run(read(_range(f"{topic}_which_is_not", 0, 0, 2)))


def test_a_reader_that_was_left_in_the_middle_begins_anew(
    kafka: HasBootstrap, reader: RangeReader, topic: str
) -> None:
    for n in range(6):
        produce(kafka.bootstrap, topic, [event(f"{n}", pad="x" * 900_000)])
    with closing(reader.read([_range(topic, 0, 0, 6)])) as pieces:
        next(pieces)
    assert [r["offset"] for r in _read(reader, [_range(topic, 0, 0, 6)])] == list(range(6))
