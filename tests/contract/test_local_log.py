"""The part of a log on its leader's own disk, as Kafka reports it."""

import asyncio
import secrets

from aiokafka.client import AIOKafkaClient

from shared.kafka_read.local_log import local_starts
from shared.kafka_read.offsets import Partition
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.writer import delete_records, event, make_topics, produce


def test_a_leader_without_another_store_has_everything_on_its_own_disk(kafka: HasBootstrap) -> None:
    topic = f"events.local_{secrets.token_hex(4)}"
    make_topics(kafka.bootstrap, topic, partitions=2)
    produce(kafka.bootstrap, topic, [event(f"{n}") for n in range(9)])
    delete_records(kafka.bootstrap, topic, 0, 5)

    async def starts() -> dict[Partition, int]:
        client = AIOKafkaClient(bootstrap_servers=kafka.bootstrap)
        await client.bootstrap()
        try:
            node = next(iter(client.cluster.brokers())).nodeId
            return await local_starts(client, node, [Partition(topic, n) for n in (0, 1, 77)])
        finally:
            await client.close()

    assert asyncio.run(starts()) == {Partition(topic, 0): 5, Partition(topic, 1): 0}
