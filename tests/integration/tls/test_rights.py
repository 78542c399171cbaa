"""A gateway that may write and describe topics, and nothing else."""

import secrets
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from services.ingest.budget import Budget
from services.ingest.kafka_sink import KafkaSink
from services.ingest.sink import Receipt
from shared.errors import TOPIC_MISSING, OnrampError
from shared.settings import KafkaSettings
from tests.fixtures.fix_tls import Secured
from tests.fixtures.ingest import record
from tests.fixtures.leave_taken import leave_taken
from tests.fixtures.writer import make_topics

pytestmark = pytest.mark.anyio
_PREFIX = "events.lean_"


@pytest.fixture(scope="module")
def lean(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A user who may WRITE and DESCRIBE, and where his password is."""
    name, file = f"lean_{secrets.token_hex(4)}", tmp_path_factory.mktemp("lean") / "password"
    file.write_text(secrets.token_hex(8))
    secured.user(name, file.read_text())
    rights = [
        AclBinding(
            ResourceType.TOPIC,
            _PREFIX,
            ResourcePatternType.PREFIXED,
            f"User:{name}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for operation in (AclOperation.WRITE, AclOperation.DESCRIBE)
    ]
    admin = secured.admin()
    for future in admin.create_acls(rights).values():
        future.result(60)
    return name, file


@pytest.fixture
async def start(secured: Secured, lean: tuple[str, Path]) -> AsyncIterator[Callable[..., KafkaSink]]:
    started: list[KafkaSink] = []

    def make(*, create_topics: bool) -> KafkaSink:
        settings = KafkaSettings(
            bootstrap=secured.kafka.bootstrap_of("SASL"),
            create_topics=create_topics,
            security_protocol="SASL_SSL",
            username=lean[0],
            password_file=lean[1],
            ca_file=secured.authority.ca,
        )
        started.append(KafkaSink(settings, Budget(2**20), 60, 90))
        return started[-1]

    async with leave_taken():
        yield make
        for sink in started:
            await sink.stop(within=1)


async def test_what_exists_is_written_to(secured: Secured, start: Callable[..., KafkaSink]) -> None:
    topic = f"{_PREFIX}{secrets.token_hex(4)}"
    make_topics(secured.kafka.bootstrap, topic)
    sink = start(create_topics=False)
    await sink.start()
    (outcome,) = await sink.send([record(topic, "first")])
    assert isinstance(outcome, Receipt), outcome


async def test_what_is_missing_is_said(start: Callable[..., KafkaSink]) -> None:
    sink = start(create_topics=False)
    await sink.start()
    (outcome,) = await sink.send([record(f"{_PREFIX}{secrets.token_hex(4)}", "first")])
    assert isinstance(outcome, OnrampError)
    assert outcome.fault is TOPIC_MISSING


async def test_who_wants_to_make_topics_needs_more_rights(
    secured: Secured, start: Callable[..., KafkaSink]
) -> None:
    topic = f"{_PREFIX}{secrets.token_hex(4)}"
    make_topics(secured.kafka.bootstrap, topic)
    sink = start(create_topics=True)
    await sink.start()
    (outcome,) = await sink.send([record(topic, "first")])
    assert isinstance(outcome, OnrampError)
    assert "AuthorizationFailed" in outcome.detail
