"""Capture of sources where Kafka lets in only whom it knows, and not to everything."""

import secrets
from pathlib import Path

from confluent_kafka.admin import AclOperation, ResourceType

from services.elt.agent import names
from services.elt.agent.connector import TopicSettings
from services.elt.agent.kafka_topics import ChangeTopics
from tests.fixtures.fix_tls import Secured
from tests.fixtures.sources import alter_topic, topic_settings
from tests.fixtures.writer import make_topics
from tests.integration.tls.test_rights import granted

_SETTINGS = TopicSettings(replication=1, min_insync=1, retention_ms=24 * 3_600_000)


def test_what_the_agent_may_not_set_on_a_topic_is_told(secured: Secured, tmp_path: Path) -> None:
    source = f"s{secrets.token_hex(4)}"
    topic = names.topic(source, "app", "orders")
    make_topics(secured.kafka.bootstrap, topic, partitions=1)
    alter_topic(secured.kafka.bootstrap, topic, {"retention.ms": "1000000"})

    def police(*rights: AclOperation) -> list[str]:
        of_topics = (ResourceType.TOPIC, names.topic_prefix(source), rights)
        folder = tmp_path / secrets.token_hex(4)
        folder.mkdir()
        name, file = granted(secured, folder, of_topics)
        brokers = secured.brokers("SASL", username=name, password_file=file)
        return ChangeTopics(brokers, _SETTINGS).police(source)

    (unread,) = police(AclOperation.DESCRIBE)
    assert f"what the topic {topic} keeps cannot be read (TopicAuthorizationFailedError)" in unread
    assert "let the agent's user DESCRIBE_CONFIGS" in unread
    (unset,) = police(AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
    assert f"what the topic {topic} keeps cannot be set (TopicAuthorizationFailedError)" in unset
    assert "let the agent's user ALTER_CONFIGS, or have cleanup.policy=delete, retention.ms=86400000" in unset
    assert topic_settings(secured.kafka.bootstrap, topic)["retention.ms"] == "1000000"

    assert police(AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS) == []
    assert topic_settings(secured.kafka.bootstrap, topic)["retention.ms"] == "86400000"
