"""An audit of hundreds of topics: where they begin and end is known in time."""

import asyncio

from confluent_kafka.admin import AdminClient, NewTopic

from services.admin.findings import Source
from services.admin.kafka_logs import KafkaLogs
from shared.kafka_security import Brokers
from stack.kafka import Kafka

MANY = 150


def test_where_many_topics_begin_and_end(kafka: Kafka) -> None:
    names = [f"many-{n}" for n in range(MANY)]
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for made in admin.create_topics([NewTopic(name, 1, 1) for name in ("one", *names)]).values():
        made.result(60)

    async def asked() -> dict[Source, tuple[int, int]]:
        async with KafkaLogs(Brokers(kafka.bootstrap)) as logs:
            # From now on the consumer knows of what it reads alone.
            async for _ in logs.read({Source("one", 0): (0, 0)}):
                raise AssertionError("it is empty")
            logs._seek({Source("one", 0): 0})
            return await logs.spans(names)

    assert asyncio.run(asked()) == {Source(name, 0): (0, 0) for name in names}
    for gone in admin.delete_topics(["one", *names]).values():
        gone.result(60)
