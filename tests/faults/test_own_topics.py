"""Onramp's own topics: settings that would lose parked events or plans are refused or reported."""

import logging
import re
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from shared import wire
from shared.topics import OWN_TOPICS
from stack.kafka import Kafka
from stack.registry import OwnRegistry
from tests.fixtures.fix_postgres import Database
from tests.fixtures.inline import Inline
from tests.fixtures.scenes import QUICK, Scene
from tests.fixtures.writer import event, eventually


def set_topic(bootstrap: str, topic: str, **settings: str) -> None:
    """Set a topic's settings, as an operator may."""
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(20)


def test_a_topic_that_would_lose_what_it_keeps_is_refused_until_it_is_mended(alone: Scene) -> None:
    admin = AdminClient({"bootstrap.servers": alone.bootstrap})
    found = {
        wire.USER_ERRORS: {"retention.ms": "60000"},
        wire.SETTLED: {"cleanup.policy": "compact,delete"},
    }
    topics = [NewTopic(name, 1, 1, config=config) for name, config in found.items()]
    for future in admin.create_topics(topics).values():
        future.result(20)
    alone.produce(event("e-1", alone.name))
    writer = alone.writer(wait=False)
    eventually(lambda: "own_topic_unsafe" in writer.trouble)
    assert "onramp.user_errors: retention.ms is 60000 and must be -1" in writer.trouble
    assert "onramp.settled: cleanup.policy is compact,delete and must be compact" in writer.trouble
    assert "--entity-name onramp.settled --add-config cleanup.policy=compact" in writer.trouble
    assert alone.landed() == 0
    set_topic(alone.bootstrap, wire.USER_ERRORS, retention_ms="-1")
    set_topic(alone.bootstrap, wire.SETTLED, cleanup_policy="compact")
    eventually(lambda: alone.landed() == 1)
    assert writer.trouble == "None"


def test_own_topic_settings_at_broker_defaults_are_set_and_explicit_settings_stay(alone: Scene) -> None:
    admin = AdminClient({"bootstrap.servers": alone.bootstrap})
    chosen = {"retention.ms": "-1", "segment.ms": "3600000"}
    for future in admin.create_topics([NewTopic(wire.USER_ERRORS, 2, 1, config=chosen)]).values():
        future.result(20)
    alone.writer()
    topic = ConfigResource(ConfigResource.Type.TOPIC, wire.USER_ERRORS)
    [found] = [future.result(20) for future in admin.describe_configs([topic]).values()]
    assert found["retention.bytes"].value == "-1"
    assert found["max.message.bytes"].value == "16777216"
    assert {name: found[name].value for name in chosen} == chosen


@pytest.mark.full
def test_a_kafka_that_is_new_needs_a_moment_for_its_groups_and_no_batch_fails(
    own_kafka: Kafka, database: Database, start_alone: Callable[..., Inline]
) -> None:
    writer = start_alone(own_kafka.bootstrap, database.dsn, QUICK | OwnRegistry(own_kafka.bootstrap).env)
    failed = [series for series in writer.shown if series.startswith("onramp_writer_failed_batches_total")]
    assert failed == []


def test_own_topic_setting_changed_under_a_running_writer_is_reported_and_events_land(
    alone: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    writer = alone.writer()
    set_topic(alone.bootstrap, wire.SYSTEM_ERRORS, retention_ms="60000")
    eventually(lambda: "onramp.system_errors: retention.ms is 60000" in writer.trouble)
    said = [r for r in caplog.records if getattr(r, "code", "") == "own_topic_unsafe"]
    assert {r.levelno for r in said} == {logging.ERROR}
    assert writer.job._status.ready()[0]
    alone.produce(event("e-1", alone.name))
    eventually(lambda: alone.landed() == 1)
    set_topic(alone.bootstrap, wire.SYSTEM_ERRORS, retention_ms="-1")
    eventually(lambda: writer.trouble == "None")


def test_missing_own_topics_are_reported_with_commands_when_creation_is_disabled(
    alone: Scene, start_alone: Callable[..., Inline]
) -> None:
    alone.produce(event("e-1", alone.name))
    registry = OwnRegistry(alone.bootstrap)
    env = QUICK | {"ONRAMP_WRITER_TOPICS": re.escape(alone.topic), "ONRAMP_KAFKA_CREATE_TOPICS": "false"}
    env |= registry.env
    writer = start_alone(alone.bootstrap, alone.dsn, env, wait=False)
    eventually(lambda: "own_topic_missing" in writer.trouble)
    made = dict(_commanded(writer.trouble))
    assert list(made) == [spec.name for spec in OWN_TOPICS]
    admin = AdminClient({"bootstrap.servers": alone.bootstrap})
    there = [name for name in admin.list_topics(timeout=20).topics if name.startswith("onramp.")]
    assert there == [registry.topic]
    settled = made.pop(wire.SETTLED)
    for future in admin.create_topics(list(made.values())).values():
        future.result(20)
    eventually(lambda: [name for name, _ in _commanded(writer.trouble)] == [wire.SETTLED])
    admin.create_topics([settled])[wire.SETTLED].result(20)
    eventually(lambda: alone.landed() == 1)
    assert writer.trouble == "None"


def _commanded(said: str) -> Iterator[tuple[str, NewTopic]]:
    """The topics that the commands would make."""
    for topic, partitions, replicas, configs in re.findall(
        r"kafka-topics --bootstrap-server \S+ --create --topic (\S+) --partitions (\d+) "
        r"--replication-factor (\d+)((?: --config [^\s;]+)*)",
        said,
    ):
        config = dict(each.split("=") for each in configs.split(" --config ")[1:])
        yield topic, NewTopic(topic, int(partitions), int(replicas), config=config)
