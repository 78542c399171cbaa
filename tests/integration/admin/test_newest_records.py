"""The newest records of a topic are read from its end, and no more than the limits permit."""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator, Mapping

import pytest
from confluent_kafka import Producer

from services.ops.findings import Source
from services.ops.kafka_logs import KafkaLogs, LogRecord
from services.ops.operate import newest_records
from services.ops.operate.newest_records import Newest, newest
from shared.kafka_security import Brokers
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.writer import make_topics

PARTITIONS = 4
OLD, NEW, LAST = 200, 40, 24


@pytest.fixture(scope="module")
def topic(kafka: HasBootstrap) -> str:
    """A topic whose partitions are one older than the other, and with new records in the last."""
    name, now = "events.newest_records", int(time.time() * 1000)
    make_topics(kafka.bootstrap, name, partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "acks": "all"})
    for partition in range(PARTITIONS):
        for n in range(OLD):
            at = now - 60_000 + 1_000 * partition + n
            producer.produce(name, b"old" * 100, partition=partition, timestamp=at)
    for n in range(NEW):
        producer.produce(name, b"new", partition=PARTITIONS - 1, timestamp=now + n)
    assert producer.flush(30) == 0
    return name


@pytest.fixture
def read_records(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[LogRecord]]:
    """The records that any client has read."""
    found: list[LogRecord] = []
    read = KafkaLogs.read

    async def counted(self: KafkaLogs, spans: Mapping[Source, tuple[int, int]]) -> AsyncGenerator[LogRecord]:
        async for record in read(self, spans):
            found.append(record)
            yield record

    monkeypatch.setattr(KafkaLogs, "read", counted)
    return found


def read_newest(kafka: HasBootstrap, topic: str, last: int) -> Newest:
    found = asyncio.run(newest(Brokers(kafka.bootstrap), topic, last))
    assert found is not None
    return found


def test_the_newest_of_all_partitions_are_read_without_the_older_ones(
    kafka: HasBootstrap, topic: str, read_records: list[LogRecord]
) -> None:
    found = read_newest(kafka, topic, LAST)
    assert [(r.source.partition, r.offset) for r in found.records] == [
        (PARTITIONS - 1, OLD + NEW - LAST + n) for n in range(LAST)
    ]
    assert found.is_whole
    # The first step back, of 32 records, shows that the first partition has older records only.
    assert sum(r.source.partition == 0 for r in read_records) == 8
    assert len(read_newest(kafka, topic, 10_000).records) == PARTITIONS * OLD + NEW


def test_traffic_limit_omits_older_records_and_marks_the_result_incomplete(
    kafka: HasBootstrap, topic: str, read_records: list[LogRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newest_records, "MAX_TRAFFIC", 30_000)
    found = read_newest(kafka, topic, 1_000)
    assert not found.is_whole
    assert sum(len(r.value or b"") for r in read_records) <= 30_000 + 300
    assert {r.offset for r in found.records if r.value == b"new"} >= {OLD + NEW - 1}


def test_time_limit_omits_records_and_marks_the_result_incomplete(
    kafka: HasBootstrap, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newest_records, "MAX_SECONDS", 0)
    found = read_newest(kafka, topic, 1_000)
    assert (found.records, found.is_whole) == ([], False)
