"""The contract of the registry's log, checked on the log in memory and on the topic."""

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from shared.errors import OWN_TOPIC_MISSING, OWN_TOPIC_UNSAFE, InfrastructureError
from shared.registry.kafka_log import KafkaLog
from shared.registry.log import MemoryLog, Record, RegistryLog, Span
from shared.registry.log_registry import LogRegistry
from shared.settings import KafkaSettings
from shared.topics import REGISTRY_TOPIC, TopicSpec
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.writer import eventually

FIRST = b'{"format":1,"after":-1,"actor":"a","time":"2026-01-01T00:00:00Z","put":{"keys":{}}}'
TYPES = b'{"format":1,"after":-1,"actor":"b","time":"2026-01-01T00:00:00Z","put":{"event_types":{"a":{}}}}'


@pytest.fixture
def spec() -> TopicSpec:
    return replace(REGISTRY_TOPIC, name=f"registry.{secrets.token_hex(8)}")


@pytest.fixture(params=["memory", "kafka"])
def log(request: pytest.FixtureRequest, spec: TopicSpec) -> Iterator[RegistryLog]:
    if request.param == "memory":
        yield MemoryLog()
        return
    kafka = KafkaLog(KafkaSettings(bootstrap=request.getfixturevalue("kafka").bootstrap), spec)
    yield kafka
    kafka.close()


def test_appended_records_are_read_in_order(log: RegistryLog) -> None:
    assert log.span() == Span(0, 0)
    assert [log.append(b"%d" % n) for n in range(3)] == [0, 1, 2]
    assert log.span() == Span(0, 3)
    assert log.read(1, 3) == [Record(1, b"1"), Record(2, b"2")]
    assert log.read(0, 1) == [Record(0, b"0")]
    assert log.read(0, 3)[0] == Record(0, b"0")


def test_a_topic_that_would_lose_changes_is_not_used(kafka: HasBootstrap, spec: TopicSpec) -> None:
    on_admin(
        kafka,
        lambda admin: admin.create_topics([NewTopic(spec.name, 1, 1, topic_configs={"retention.ms": "9"})]),
    )
    assert "--add-config" in refused(kafka, spec, OWN_TOPIC_UNSAFE.code)
    two = replace(spec, name=f"{spec.name}.two")
    on_admin(kafka, lambda admin: admin.create_topics([NewTopic(two.name, 2, 1)]))
    assert "one" in refused(kafka, two, OWN_TOPIC_UNSAFE.code)


def test_missing_topic_is_refused_when_topic_creation_is_off(kafka: HasBootstrap, spec: TopicSpec) -> None:
    assert "kafka-topics --create" in refused(kafka, spec, OWN_TOPIC_MISSING.code, create_topics=False)
    with_rights = KafkaLog(KafkaSettings(bootstrap=kafka.bootstrap), spec)
    without = KafkaLog(KafkaSettings(bootstrap=kafka.bootstrap, create_topics=False), spec)
    assert with_rights.span() == without.span() == Span(0, 0)
    with_rights.close()
    without.close()


def refused(kafka: HasBootstrap, spec: TopicSpec, code: str, **settings: Any) -> str:
    log = KafkaLog(KafkaSettings(bootstrap=kafka.bootstrap, **settings), spec)
    with pytest.raises(InfrastructureError) as raised:
        log.span()
    log.close()
    assert raised.value.fault.code == code
    return raised.value.detail


def test_a_record_that_no_client_can_parse_and_a_transaction_stop_no_reader(
    kafka: HasBootstrap, spec: TopicSpec
) -> None:
    log = KafkaLog(KafkaSettings(bootstrap=kafka.bootstrap), spec)
    log.append(FIRST)
    registry = LogRegistry(log)
    asyncio.run(among_odd_records(kafka.bootstrap, spec.name, registry))
    assert registry.is_read
    assert registry.chain is not None
    assert (registry.chain.last, registry.chain.end) == (0, 4)
    registry.close()


async def among_odd_records(bootstrap: str, topic: str, registry: LogRegistry) -> None:
    """After a transaction that was aborted, so a hole, and in one that is open."""
    for is_open in (False, True):
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=secrets.token_hex(8))
        await producer.start()
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"odd", partition=0, headers=[("h", b"\xff")])
        if is_open:
            await asyncio.to_thread(registry.refresh)
        await producer.abort_transaction()
        await producer.stop()


def test_recreated_topic_leaves_the_snapshot_and_marks_the_registry_invalid(
    kafka: HasBootstrap, spec: TopicSpec
) -> None:
    log = KafkaLog(KafkaSettings(bootstrap=kafka.bootstrap), spec)
    log.append(TYPES)
    registry = LogRegistry(log)
    assert registry.refresh()
    on_admin(kafka, lambda admin: admin.delete_topics([spec.name]))
    eventually(lambda: not registry.refresh() and "recreated" in registry.trouble)
    assert list(registry.snapshot().event_types) == ["a"]
    assert not registry.is_valid
    registry.close()


def on_admin(kafka: HasBootstrap, act: Callable[[AIOKafkaAdminClient], Coroutine[Any, Any, Any]]) -> None:
    async def run() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
        await admin.start()
        await act(admin)
        await admin.close()

    asyncio.run(run())
