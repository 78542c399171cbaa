"""Capture of sources on a Kafka with TLS, logins and ACLs."""

import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from services.cdc.agent import names
from services.cdc.agent.connector import TopicSettings
from services.cdc.agent.kafka_topics import ChangeTopics
from stack.connect import GROUP, Connect
from stack.postgres import Postgres
from tests.fixtures.fix_postgres import FAST
from tests.fixtures.fix_tls import USER, Secured
from tests.fixtures.running_part import started
from tests.fixtures.sources import ENV, alter_topic, captured, flows, password_of, topic_settings
from tests.fixtures.writer import eventually, make_topics, records
from tests.integration.tls.test_rights import granted

_SETTINGS = TopicSettings(replication=1, min_insync=1, retention_ms=24 * 3_600_000)


def test_topic_setting_the_agent_may_not_read_or_set_is_reported_with_the_missing_right(
    secured: Secured, tmp_path: Path
) -> None:
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
        return ChangeTopics(brokers, _SETTINGS).enforce_settings(source)

    (unread,) = police(AclOperation.DESCRIBE)
    assert f"the retention of the topic {topic} cannot be read (TopicAuthorizationFailedError)" in unread
    assert "let the agent's user DESCRIBE_CONFIGS" in unread
    (unset,) = police(AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
    assert f"the retention of the topic {topic} cannot be set (TopicAuthorizationFailedError)" in unset
    assert "let the agent's user ALTER_CONFIGS, or have cleanup.policy=delete, retention.ms=86400000" in unset
    assert topic_settings(secured.kafka.bootstrap, topic)["retention.ms"] == "1000000"

    assert police(AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS) == []
    assert topic_settings(secured.kafka.bootstrap, topic)["retention.ms"] == "86400000"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    with started(Postgres(tmp_path_factory.mktemp("source"), settings=FAST)) as postgres:
        yield postgres


@pytest.mark.parametrize("listener", ["SASL", pytest.param("MTLS", marks=pytest.mark.full)])
def test_a_change_becomes_a_record_and_signals_arrive(
    listener: str, secured: Secured, server: Postgres, tmp_path: Path
) -> None:
    own = secured.authority.issue(USER)
    with_certificate = {"cert_file": own.cert, "key_file": own.key} if listener == "MTLS" else {}
    brokers = secured.brokers(listener, **with_certificate)
    worker = Connect(
        tmp_path / "connect",
        brokers.bootstrap,
        passwords={f"{ENV}_PASSWORD": password_of(server.dsn)},
        security=brokers.security,
    )
    table = "CREATE TABLE app.orders (id int PRIMARY KEY)", "INSERT INTO app.orders VALUES (1)"
    with (
        started(worker) as connect,
        captured(server, connect, secured.kafka.bootstrap, table, brokers=brokers) as shop,
    ):
        reconciler = shop.new_reconciler()
        flows(reconciler)
        shop.execute("INSERT INTO app.orders VALUES (2)")
        eventually(lambda: [change["op"] for change in shop.changes("orders")] == ["r", "c"], 60)
        shop.execute("ALTER TABLE app.orders ADD COLUMN paid bool DEFAULT true")
        eventually(lambda: bool(reconciler.reconcile()) and len(shop.changes("orders")) >= 4, 60)
        reconciler.close()

        kept = b"".join(r.value or b"" for r in records(secured.kafka.bootstrap, f"{GROUP}.configs"))
        shown = json.dumps(shop.api.config(shop.connector))
        assert brokers.security.protocol in shown
        files = [path.read_text("utf-8") for path in (tmp_path / "connect").iterdir() if path.is_file()]
        key = "".join(own.key.read_text().splitlines()[1:-1])
        for secret in (secured.password, key[:40]):
            assert not [text for text in (kept.decode(), shown, *files) if secret in text]
