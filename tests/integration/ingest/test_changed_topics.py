"""Topics whose settings change, or that are deleted, while a sink has cached them."""

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaConnectionError, MessageSizeTooLargeError

from services.ingest.send import kafka_sink, kafka_topics
from services.ingest.send.byte_budget import ByteBudget
from services.ingest.send.kafka_sink import KafkaSink
from services.ingest.sink import Receipt
from shared.errors import EVENT_TOO_LARGE, KAFKA_UNAVAILABLE, TOPIC_UNSAFE, Fault, OnrampError
from shared.settings import KafkaSettings
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.ingest import record, until

pytestmark = pytest.mark.anyio

SMALL, LARGE = b"s" * 100, b"l" * 30_000


@pytest.fixture
async def sink(kafka: HasBootstrap, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KafkaSink]:
    monkeypatch.setattr(kafka_topics, "_REREAD_SECONDS", 0.2)
    monkeypatch.setattr(kafka_sink, "_METADATA_AGE_MS", 200)
    settings = KafkaSettings(bootstrap=kafka.bootstrap)
    sink = KafkaSink(settings, ByteBudget(2**28), deadline_seconds=60, stuck_producer_seconds=90)
    await sink.start()
    yield sink
    await sink.stop(within=5)


@pytest.fixture
async def admin(kafka: HasBootstrap) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    await admin.start()
    yield admin
    await admin.close()


@pytest.fixture
def topic() -> str:
    return f"events.changed_{secrets.token_hex(4)}"


async def set_up(admin: AIOKafkaAdminClient, topic: str, **settings: str) -> None:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, given)])


async def sent(sink: KafkaSink, topic: str, *values: bytes) -> list[Receipt | Fault]:
    key = "one-key"  # and so one partition
    results = await sink.send([record(topic, key, value) for value in values])
    return [each.fault if isinstance(each, OnrampError) else each for each in results]


async def test_a_changed_limit_is_known_soon(
    sink: KafkaSink, admin: AIOKafkaAdminClient, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    await sent(sink, topic, SMALL)
    await set_up(admin, topic, max_message_bytes="20000")

    async def lowered() -> bool:
        return sink._max_message_bytes(topic) == 20_000

    await until(lowered)
    first, large, last = await sent(sink, topic, SMALL, LARGE, SMALL)
    assert large is EVENT_TOO_LARGE
    assert isinstance(first, Receipt)
    assert isinstance(last, Receipt)
    await set_up(admin, topic, max_message_bytes="100000")

    async def raised() -> bool:
        return isinstance((await sent(sink, topic, LARGE))[0], Receipt)

    await until(raised)
    assert "replacing the producer" not in caplog.text


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway has not polled the settings yet."""
    monkeypatch.setattr(kafka_topics.TopicManager, "_remember", lambda *_: None)


@pytest.mark.usefixtures("unread")
async def test_a_limit_that_was_just_lowered_is_the_large_events_problem_alone(
    sink: KafkaSink,
    admin: AIOKafkaAdminClient,
    topic: str,
    kafka: HasBootstrap,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await sent(sink, topic, SMALL)
    await set_up(admin, topic, max_message_bytes="20000")
    await until_too_large(kafka, topic)

    first, large, last = await sent(sink, topic, SMALL, LARGE, SMALL)
    assert large is EVENT_TOO_LARGE
    assert isinstance(first, Receipt)
    assert isinstance(last, Receipt)
    assert isinstance((await sent(sink, topic, SMALL))[0], Receipt)
    assert "replacing the producer" not in caplog.text


@pytest.mark.usefixtures("unread")
async def test_events_that_follow_what_was_too_large_are_sent_behind_it(
    sink: KafkaSink,
    admin: AIOKafkaAdminClient,
    topic: str,
    kafka: HasBootstrap,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka_sink, "_BATCH_BYTES", 50_000)  # the request below needs two batches
    await sent(sink, topic, SMALL)
    await set_up(admin, topic, max_message_bytes="20000")
    await until_too_large(kafka, topic)

    receipts = await sent(sink, topic, *[b"m" * 2_400] * 22)
    offsets = [each.offset for each in receipts if isinstance(each, Receipt)]
    assert offsets == sorted(offsets, key=int)
    assert len(offsets) == 22


async def test_event_that_kafka_already_stored_is_not_rejected_as_too_large_on_retry(
    sink: KafkaSink,
    admin: AIOKafkaAdminClient,
    topic: str,
    kafka: HasBootstrap,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (first,) = await sent(sink, topic, SMALL)

    async def lower() -> None:
        await set_up(admin, topic, max_message_bytes="20000")
        await until_too_large(kafka, topic)

    client = (await sink._producers.current()).producer.client
    monkeypatch.setattr(client, "send", LosingAnAnswer(client.send, lower))
    assert await sent(sink, topic, LARGE) == [KAFKA_UNAVAILABLE]
    (next_one,) = await sent(sink, topic, SMALL)
    assert isinstance(first, Receipt)
    assert isinstance(next_one, Receipt)
    assert await values_at(kafka, topic, next_one) == [SMALL, LARGE, SMALL]


class LosingAnAnswer:
    """The connection breaks when Kafka has the first batch; before it is tried again, something happens."""

    def __init__(self, send: Callable[..., Awaitable[Any]], then: Callable[[], Awaitable[None]]) -> None:
        self._send = send
        self._then = then
        self._lost = False

    async def __call__(self, node: int, request: Any, **given: Any) -> Any:
        answer = await self._send(node, request, **given)
        if self._lost or not hasattr(request, "required_acks"):
            return answer
        self._lost = True
        await self._then()
        raise KafkaConnectionError


async def values_at(kafka: HasBootstrap, topic: str, last: Receipt) -> list[bytes | None]:
    """Return the values of the receipt's partition, from its beginning up to the receipt's own."""
    of = TopicPartition(topic, last.partition)
    async with AIOKafkaConsumer(bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([of])
        return [(await consumer.getone(of)).value for _ in range((last.offset or 0) + 1)]


async def until_too_large(kafka: HasBootstrap, topic: str) -> None:
    """Wait until the broker itself takes large events no more."""
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:

        async def refused() -> bool:
            try:
                await producer.send_and_wait(topic, LARGE, partition=0)
            except MessageSizeTooLargeError:
                return True
            return False

        await until(refused)


async def test_a_topic_that_became_unsafe_takes_nothing_until_it_is_mended(
    sink: KafkaSink, admin: AIOKafkaAdminClient, topic: str
) -> None:
    await sent(sink, topic, SMALL)
    await set_up(admin, topic, cleanup_policy="compact")

    async def refused() -> bool:
        return await sent(sink, topic, SMALL) == [TOPIC_UNSAFE]

    await until(refused)
    await set_up(admin, topic, cleanup_policy="delete")

    async def accepted() -> bool:
        return isinstance((await sent(sink, topic, SMALL))[0], Receipt)

    await until(accepted)


async def test_partitions_that_were_added_are_used(
    sink: KafkaSink, admin: AIOKafkaAdminClient, topic: str
) -> None:
    await sent(sink, topic, SMALL)
    before = sink._counts[topic]
    await admin.create_partitions({topic: NewPartitions(total_count=before + 5)})

    async def used() -> bool:
        results = await sink.send([record(topic, f"key-{n}", SMALL) for n in range(200)])
        return {each.partition for each in results if isinstance(each, Receipt)} == set(range(before + 5))

    await until(used)


async def test_a_deleted_topic_is_made_again(sink: KafkaSink, admin: AIOKafkaAdminClient, topic: str) -> None:
    await sent(sink, topic, SMALL)
    await admin.delete_topics([topic])

    async def forgotten() -> bool:
        return sink._topics.known(topic) is None

    await until(forgotten)
    (again,) = await sent(sink, topic, SMALL)
    assert isinstance(again, Receipt)
