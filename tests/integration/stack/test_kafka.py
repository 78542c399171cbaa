"""The embedded Kafka: acknowledged records survive a clean stop and a restart."""

import asyncio
import os
import signal
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, TopicMetadata

from services.writer.kafka.cluster import Cluster
from shared.settings import KafkaSettings
from shared.topics import OWN_TOPICS
from stack.errors import StackError
from stack.kafka import Kafka
from stack.ports import free_port
from stack.process_groups import family_of, is_alive
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.running_part import started
from tests.fixtures.writer import eventually


def make_topic(bootstrap: str, topic: str, replicas: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, replicas)])[topic].result(20)


def produce(bootstrap: str, topic: str, value: bytes) -> None:
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "message.timeout.ms": 20000})
    producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(30) == 0
    assert failures == []


def read_one(bootstrap: str, topic: str) -> bytes | None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        return message.value()
    finally:
        consumer.close()


def test_the_shared_kafka_holds_what_it_acknowledged(kafka: HasBootstrap) -> None:
    make_topic(kafka.bootstrap, "stack.shared")
    produce(kafka.bootstrap, "stack.shared", b"hello")
    assert read_one(kafka.bootstrap, "stack.shared") == b"hello"


def test_topics_never_appear_by_being_asked_for(kafka: HasBootstrap) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "message.timeout.ms": 2000})
    outcomes: list[object] = []
    producer.produce("stack.nobody_made_me", b"x", on_delivery=lambda error, _: outcomes.append(error))
    producer.flush(10)
    assert outcomes
    assert outcomes[0] is not None
    assert (
        "stack.nobody_made_me"
        not in AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=10).topics
    )


def test_a_crash_is_reported_and_data_survives_it_and_a_stop_leaves_no_process(own_kafka: Kafka) -> None:
    bootstrap = own_kafka.bootstrap
    make_topic(bootstrap, "stack.kept")
    produce(bootstrap, "stack.kept", b"before")
    own_kafka.check()
    os.kill(own_kafka.pid, signal.SIGKILL)
    os.waitid(os.P_PID, own_kafka.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(StackError) as caught:
        own_kafka.check()
    assert "kafka was ended by SIGKILL" in str(caught.value)
    assert "Kafka Server started" in caught.value.log_tail

    own_kafka.start()
    own_kafka.wait_ready()
    assert own_kafka.bootstrap == bootstrap
    assert read_one(bootstrap, "stack.kept") == b"before"
    family = family_of(psutil.Process(own_kafka.pid))
    own_kafka.stop()
    assert [each for each in family if is_alive(each)] == []


@pytest.mark.full
def test_the_same_data_can_move_to_another_port(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("kafka-moves")
    with started(Kafka(folder)) as first:
        make_topic(first.bootstrap, "stack.moved")
        produce(first.bootstrap, "stack.moved", b"before")
    port = free_port()
    with started(Kafka(folder, port=port)) as second:
        assert second.bootstrap == f"127.0.0.1:{port}"
        assert read_one(second.bootstrap, "stack.moved") == b"before"


async def _make_own_topics(settings: KafkaSettings) -> None:
    positions = Cluster(settings, r"events\..+")
    try:
        await (await positions.start()).own_topics.ensure()
    finally:
        await positions.stop()


def promises(bootstrap: str, names: set[str]) -> dict[str, tuple[int, str | None]]:
    """For every topic: the fewest replicas of a partition, and `min.insync.replicas`."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def known() -> dict[str, TopicMetadata] | None:
        topics = admin.list_topics(timeout=10).topics
        return topics if names <= topics.keys() else None

    def minima() -> dict[str, str | None] | None:
        asked = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, name) for name in topics])
        try:
            return {r.name: answer.result(10)["min.insync.replicas"].value for r, answer in asked.items()}
        except KafkaException as e:
            if e.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            return None

    # A broker learns of a new topic a moment after it was made, and each asks another one.
    topics = eventually(known) or {}
    least = eventually(minima) or {}
    return {
        name: (min(len(p.replicas) for p in topic.partitions.values()), least[name])
        for name, topic in topics.items()
    }


def test_a_folder_of_one_broker_is_not_started_as_three(tmp_path: Path) -> None:
    (tmp_path / "broker-1").mkdir()
    with pytest.raises(StackError, match=r"holds a Kafka of 1 broker\(s\), asked for are 3"):
        Kafka(tmp_path, brokers=3).start()


@pytest.mark.full
def test_three_brokers_keep_the_promise_of_two(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started(Kafka(tmp_path_factory.mktemp("kafka-3"), brokers=3, heap_mb=320)) as cluster:
        bootstrap = cluster.bootstrap
        for name, value in cluster.promise.items():
            monkeypatch.setenv(name, value)
        asyncio.run(_make_own_topics(KafkaSettings(bootstrap=bootstrap)))
        found = promises(bootstrap, {spec.name for spec in OWN_TOPICS})
        assert set(found.values()) == {(3, "2")}
        make_topic(bootstrap, "stack.replicated", replicas=3)
        cluster.kill(2)
        produce(bootstrap, "stack.replicated", b"with one gone")
        assert read_one(bootstrap, "stack.replicated") == b"with one gone"
