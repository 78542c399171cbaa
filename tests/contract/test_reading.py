"""Both readers, the driver's for small batches and Spark's, make the same of the same records."""

import asyncio
import secrets
from collections.abc import Iterator, Sequence
from datetime import datetime

import pyarrow as pa
import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer

from services.writer.driver.spark import Spark
from services.writer.kafka.reader import BatchReader
from services.writer.model.offsets import Partition, Range
from services.writer.model.records import ARRIVALS, LARGE, USUAL
from services.writer.settings import WriterSettings
from shared import wire
from shared.kafka_security import Brokers
from stack.jars import ensure_jars
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.odd import make_topic_of_any_time, produce_at, produce_with_odd_header
from tests.fixtures.writer import CONTEXT, delete_records, event, make_topics, produce

RECEIVED = (wire.HEADER_RECEIVED_AT, b"2026-11-21T08:00:01.123456+00:00")
SPELLED = (wire.HEADER_CONTEXT, b'{ "consumer": {"type": "data_pipeline"} }')
OTHER = (wire.HEADER_CONTEXT, b'{"consumer":{"type":"other"}}')
NO_VALUE = (wire.HEADER_CONTEXT, None)
EMPTY = (wire.HEADER_CONTEXT, b"")


@pytest.fixture(scope="module")
def spark(kafka: HasBootstrap) -> Iterator[Spark]:
    jars = ",".join(map(str, ensure_jars("spark")))
    spark = Spark(WriterSettings(spark_jars=jars, master="local[1]"), Brokers(kafka.bootstrap))
    yield spark
    spark.stop()


@pytest.fixture
def topic(kafka: HasBootstrap) -> str:
    name = f"events.reading_{secrets.token_hex(4)}"
    make_topics(kafka.bootstrap, name, partitions=3)
    return name


def _range(topic: str, number: int, start: int, end: int) -> Range:
    return Range("", Partition(topic, number), start, end)


def _by_driver(bootstrap: str, *batches: Sequence[Range]) -> list[pa.Table | None]:
    """What the driver reads of each of `batches`, one after the other."""

    async def read() -> list[pa.RecordBatch | None]:
        tail = BatchReader(Brokers(bootstrap))
        await tail.start()
        try:
            tail.follow({r.partition for ranges in batches for r in ranges})
            return [await tail.read(ranges) for ranges in batches]
        finally:
            await tail.stop()

    return [batch and pa.Table.from_batches([batch]) for batch in asyncio.run(read())]


def _by_spark(spark: Spark, ranges: Sequence[Range]) -> pa.Table:
    return spark._read(ranges).toArrow().cast(ARRIVALS)


def _sorted(table: pa.Table | None) -> list[dict[str, object]]:
    assert table is not None
    return table.sort_by(
        [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
    ).to_pylist()


def test_headers_values_and_times_are_read_alike(kafka: HasBootstrap, spark: Spark, topic: str) -> None:
    for headers in ([], [*CONTEXT], [*CONTEXT, RECEIVED], [SPELLED], [OTHER], [NO_VALUE]):
        produce(kafka.bootstrap, topic, [event("e"), None, b""], headers=headers)
    usual = [*CONTEXT, RECEIVED]
    more = [(wire.HEADER_PRODUCER, b"shop"), (wire.HEADER_TRACEPARENT, b"00-1-2-3")]
    others = [
        [OTHER, *CONTEXT],
        [*CONTEXT, OTHER],
        [RECEIVED, (RECEIVED[0], b"x"), *CONTEXT],
        usual,
        [*usual, *more],
        [*usual, OTHER],
        [*usual, more[0], (RECEIVED[0], b"x")],
        [*usual, *more, OTHER],
        [EMPTY, RECEIVED],
        [*usual, EMPTY],
        [RECEIVED, *CONTEXT],
        [more[0], *usual],
    ]
    for headers in others:
        produce(kafka.bootstrap, topic, [b"\xff\x00"], headers=headers, partition=1)
    ranges = [_range(topic, 0, 0, 18), _range(topic, 1, 0, len(others))]
    (found,) = _by_driver(kafka.bootstrap, ranges)
    assert _sorted(found) == _sorted(_by_spark(spark, ranges))
    assert found.num_rows == 18 + len(others)


def _of_size(size: int, context: bytes = wire.CONTEXT_BYTES) -> list[tuple[str, bytes]]:
    return [(wire.HEADER_CONTEXT, context), (wire.HEADER_RECEIVED_AT, b"x" * (size - len(context)))]


def test_f46_headers_that_are_too_large_are_not_carried_and_all_others_are(
    kafka: HasBootstrap, spark: Spark, topic: str
) -> None:
    most = wire.MOST_HEADER_BYTES
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
    ranges = [_range(topic, 0, 0, len(cases))]
    (found,) = _by_driver(kafka.bootstrap, ranges)
    read = [(row["context"], row["received_at"]) for row in _sorted(found)]
    assert [(c, None if r is None else len(r)) for c, r in read] == [expected for _, expected in cases]  # type: ignore[arg-type]
    assert _sorted(found) == _sorted(_by_spark(spark, ranges))
    assert [row["value"] for row in _sorted(found)] == [
        event("e") if c is not None else None for c, _ in read
    ]


def test_f46_a_header_whose_key_is_no_utf8_is_left_to_spark_which_reads_it(
    kafka: HasBootstrap, spark: Spark, topic: str
) -> None:
    produce(kafka.bootstrap, topic, [event("before")])
    produce_with_odd_header(kafka.bootstrap, topic, event("odd"), [*CONTEXT, RECEIVED])
    produce_with_odd_header(kafka.bootstrap, topic, event("other"))
    produce(kafka.bootstrap, topic, [event("after")])
    odd, usual = [_range(topic, 0, 0, 4)], [_range(topic, 0, 3, 4)]
    assert [batch and batch.num_rows for batch in _by_driver(kafka.bootstrap, odd, usual)] == [None, 1]
    found = _sorted(_by_spark(spark, odd))
    assert [row["value"] for row in found] == [event("before"), event("odd"), None, event("after")]
    assert [row["received_at"] for row in found] == [None, RECEIVED[1], None, None]


TIMES = {
    -1: "1970-01-01T00:00:00Z",  # Kafka's own word for: no time
    -(10**13): "1970-01-01T00:00:00Z",
    0: "1970-01-01T00:00:00Z",
    253_402_300_799_999: "9999-12-31T23:59:59.999Z",
    253_402_300_800_000: "9999-12-31T23:59:59.999Z",
    9 * 10**15: "9999-12-31T23:59:59.999Z",
}


def test_f46_a_time_that_nobody_can_tell_is_the_nearest_that_is_one(
    kafka: HasBootstrap, spark: Spark
) -> None:
    name = f"events.times_{secrets.token_hex(4)}"
    make_topic_of_any_time(kafka.bootstrap, name)
    for milliseconds in TIMES:
        produce_at(kafka.bootstrap, name, milliseconds, event("e"), CONTEXT)
    ranges = [_range(name, 0, 0, len(TIMES))]
    (found,) = _by_driver(kafka.bootstrap, ranges)
    assert _sorted(found) == _sorted(_by_spark(spark, ranges))
    assert [row["timestamp"] for row in _sorted(found)] == [*map(datetime.fromisoformat, TIMES.values())]


def test_f46_a_time_that_spark_cannot_read_is_read_by_the_driver(kafka: HasBootstrap, spark: Spark) -> None:
    name = f"events.times_{secrets.token_hex(4)}"
    make_topic_of_any_time(kafka.bootstrap, name)
    for milliseconds in (-(2**63), -(10**16), 10**16, 2**63 - 1):
        produce_at(kafka.bootstrap, name, milliseconds, event("e"), CONTEXT)
    ranges = [_range(name, 0, 0, 4)]
    (found,) = _by_driver(kafka.bootstrap, ranges)
    assert [row["timestamp"].year for row in _sorted(found)] == [1970, 1970, 9999, 9999]  # type: ignore[attr-defined]
    with pytest.raises(Exception, match="overflow"):
        _by_spark(spark, ranges)


@pytest.mark.parametrize("codec", ["gzip", "lz4", "snappy", "zstd"])
def test_every_compression_is_read(kafka: HasBootstrap, topic: str, codec: str) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "compression.type": codec})
    for n in range(50):
        producer.produce(topic, value=event(f"e-{n}", pad="x" * 100), headers=CONTEXT, partition=2)
    assert producer.flush(30) == 0
    (found,) = _by_driver(kafka.bootstrap, [_range(topic, 2, 0, 50)])
    assert [row["offset"] for row in _sorted(found)] == list(range(50))


def test_aborted_transactions_are_left_out_and_the_end_is_found_behind_them(
    kafka: HasBootstrap, spark: Spark, topic: str
) -> None:
    async def transactions() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=topic)
        await producer.start()
        for commits in (True, False, True, False):
            await producer.begin_transaction()
            await producer.send_and_wait(topic, event(f"{commits}"), partition=0, headers=CONTEXT)
            await (producer.commit_transaction() if commits else producer.abort_transaction())
        await producer.stop()

    asyncio.run(transactions())
    ranges = [_range(topic, 0, 0, 8)]  # each transaction: a record and its marker
    (found,) = _by_driver(kafka.bootstrap, ranges)
    assert _sorted(found) == _sorted(_by_spark(spark, ranges))
    assert [row["offset"] for row in _sorted(found)] == [0, 4]


def test_one_batch_after_the_other_each_range_is_read_from_its_start_to_its_end(
    kafka: HasBootstrap, topic: str
) -> None:
    for partition in (0, 1):
        produce(kafka.bootstrap, topic, [event(f"{n}") for n in range(30)], partition=partition)
    first = [_range(topic, 0, 0, 7)]
    second = [_range(topic, 0, 7, 30), _range(topic, 1, 3, 4)]
    again = [_range(topic, 0, 2, 5), _range(topic, 1, 0, 30)]
    found = _by_driver(kafka.bootstrap, first, second, again)
    offsets = [[(r["partition"], r["offset"]) for r in _sorted(table)] for table in found]
    assert offsets == [
        [(0, n) for n in range(7)],
        [(0, n) for n in range(7, 30)] + [(1, 3)],
        [(0, n) for n in range(2, 5)] + [(1, n) for n in range(30)],
    ]


def test_what_kafka_has_deleted_is_left_to_spark_which_fails(
    kafka: HasBootstrap, spark: Spark, topic: str
) -> None:
    produce(kafka.bootstrap, topic, [event(f"{n}") for n in range(9)])
    delete_records(kafka.bootstrap, topic, 0, 5)
    ranges = [_range(topic, 0, 2, 9)]
    assert _by_driver(kafka.bootstrap, ranges) == [None]
    with pytest.raises(Exception, match="may have been lost"):
        _by_spark(spark, ranges)


def test_what_is_not_there_or_too_large_to_hand_over_is_left_to_spark(
    kafka: HasBootstrap, topic: str
) -> None:
    produce(kafka.bootstrap, topic, [event("e", pad="x" * 900_000) for _ in range(6)])
    large, small = [_range(topic, 0, 0, 6)], [_range(topic, 0, 0, 2)]
    beyond = [_range(topic, 0, 5, 9)]
    found = _by_driver(kafka.bootstrap, large, beyond, small)
    assert found[:2] == [None, None]
    assert len(_sorted(found[2])) == 2


def test_a_reader_that_gets_nothing_again_and_again_gives_up(kafka: HasBootstrap, topic: str) -> None:
    produce(kafka.bootstrap, topic, [event("e")])
    there, beyond = [_range(topic, 0, 0, 1)], [_range(topic, 0, 1, 2)]
    *_, last = _by_driver(kafka.bootstrap, beyond, beyond, there, beyond, beyond)
    assert last is None
    with pytest.raises(TimeoutError):
        _by_driver(kafka.bootstrap, beyond, beyond, beyond)
