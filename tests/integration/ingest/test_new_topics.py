"""New topics in bursts: concurrent creations share a request to Kafka and fail independently."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from services.ingest.send.kafka_topics import TopicManager, TopicState
from shared.errors import KAFKA_UNREACHABLE, TOPIC_MISSING, InfrastructureError
from shared.settings import KafkaSettings
from shared.topics import event_topic
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.ingest import until

pytestmark = pytest.mark.anyio

MAX = "events.too_many_partitions_"


@pytest.fixture
async def manager(kafka: HasBootstrap) -> AsyncIterator[TopicManager]:
    manager = TopicManager(
        KafkaSettings(bootstrap=kafka.bootstrap),
        lambda topic: event_topic(topic, 20_000 if topic.startswith(MAX) else 1),
    )
    yield manager
    await manager.stop()


@pytest.fixture
def creations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many topics each request asked for, in the order of the requests."""
    asked: list[int] = []
    create = AIOKafkaAdminClient.create_topics

    async def counted(self: AIOKafkaAdminClient, topics: list[Any], *args: Any, **kwargs: Any) -> Any:
        asked.append(len(topics))
        return await create(self, topics, *args, **kwargs)

    monkeypatch.setattr(AIOKafkaAdminClient, "create_topics", counted)
    return asked


def names(count: int) -> list[str]:
    own = secrets.token_hex(4)
    return [f"events.burst_{own}_{index}" for index in range(count)]


async def ensured(manager: TopicManager, topics: list[str]) -> list[TopicState | BaseException]:
    return await asyncio.gather(*(manager.ensure(topic) for topic in topics), return_exceptions=True)


async def test_names_that_come_at_once_are_one_request(manager: TopicManager, creations: list[int]) -> None:
    states = await ensured(manager, names(40))
    assert all(isinstance(state, TopicState) for state in states)
    assert creations == [40]


async def test_topics_requested_during_a_creation_are_created_in_the_next_request(
    manager: TopicManager, creations: list[int]
) -> None:
    topics = names(30)
    first = [asyncio.create_task(manager.ensure(topic)) for topic in topics[:6]]

    async def asked() -> bool:
        return bool(creations)

    await until(asked)
    again = [asyncio.create_task(manager.ensure(topic)) for topic in topics]
    await asyncio.gather(*first, *again)
    assert sum(creations) == 30  # nothing is asked twice
    assert len(creations) == 2
    assert all(manager.known(topic) is not None for topic in topics)


async def test_a_topic_that_kafka_refuses_refuses_none_of_its_neighbours(manager: TopicManager) -> None:
    topics = names(5)
    bad = MAX + secrets.token_hex(4)
    *good, refused = await ensured(manager, [*topics, bad])
    assert all(isinstance(state, TopicState) for state in good)
    assert isinstance(refused, InfrastructureError)
    assert refused.fault is KAFKA_UNREACHABLE
    assert "PolicyViolation" in str(refused) or "InvalidPartitions" in str(refused)
    assert manager.known(bad) is None


async def test_without_the_right_to_create_each_missing_topic_is_named(
    manager: TopicManager, kafka: HasBootstrap
) -> None:
    there = names(3)
    await ensured(manager, there)
    checking = TopicManager(KafkaSettings(bootstrap=kafka.bootstrap, create_topics=False), lambda _: None)
    missing = names(2)
    *good, first, second = await ensured(checking, [*there, *missing])
    assert all(isinstance(state, TopicState) for state in good)
    for error, topic in zip((first, second), missing, strict=True):
        assert isinstance(error, InfrastructureError)
        assert error.fault is TOPIC_MISSING
        assert topic in str(error)
    await checking.stop()


async def test_topic_requests_fail_with_kafka_unreachable_while_kafka_is_down() -> None:
    away = TopicManager(KafkaSettings(bootstrap="127.0.0.1:1"), lambda _: None)
    for error in await ensured(away, names(3)):
        assert isinstance(error, InfrastructureError)
        assert error.fault is KAFKA_UNREACHABLE
    await away.stop()
