"""Hundreds of topics: audit and agent read their first and last offsets in bounded time."""

import asyncio
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from services.cdc.agent import names
from services.cdc.agent.connector import TopicSettings
from services.cdc.agent.kafka_topics import ChangeTopics
from services.ops.findings import Source
from services.ops.kafka_logs import KafkaLogs
from shared.kafka_security import Brokers
from stack.kafka import Kafka

TABLES = [("app", f"t{n}") for n in range(200)]
MANY = [names.topic("many", *table) for table in TABLES]


@pytest.fixture
def brokers(kafka: Kafka) -> Iterator[Brokers]:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for made in admin.create_topics([NewTopic(name, 1, 1) for name in ("one", *MANY)]).values():
        made.result(60)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for topic in ("one", MANY[-1]):
        producer.produce(topic, b"x", timestamp=1000)
    assert producer.flush(60) == 0
    yield Brokers(kafka.bootstrap)
    for gone in admin.delete_topics(["one", *MANY]).values():
        gone.result(60)


def test_where_many_topics_begin_and_end(brokers: Brokers) -> None:
    async def asked() -> tuple[dict[Source, tuple[int, int]], dict[Source, int]]:
        async with KafkaLogs(brokers) as logs:
            # From now on its consumer knows of what it reads alone.
            assert [record.offset async for record in logs.read({Source("one", 0): (0, 1)})] == [0]
            spans = await logs.spans(MANY)
            return spans, await logs.offsets_at(spans, 500)

    spans, since = asyncio.run(asked())
    assert spans == {Source(name, 0): (0, int(name == MANY[-1])) for name in MANY}
    assert since == {Source(MANY[-1], 0): 0}


def test_where_the_topics_of_a_source_of_many_tables_end(brokers: Brokers) -> None:
    ends = ChangeTopics(brokers, TopicSettings(replication=1, min_insync=1, retention_ms=1000)).ends(
        "many", TABLES
    )
    assert {table: end.offset for table, end in ends.items()} == {
        table: int(table == TABLES[-1]) for table in TABLES
    }
