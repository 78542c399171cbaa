"""Kafka clients over each TLS listener and login; bad certificates and wrong passwords are refused."""

import asyncio
import logging
import secrets
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from services.ops.kafka_logs import KafkaLogs
from services.writer.kafka.producer import Record, publish
from shared.errors import InfrastructureError
from shared.kafka_security import Brokers
from tests.fixtures.closed_connections import leave_taken
from tests.fixtures.fix_tls import USER, Secured
from tests.fixtures.writer import make_topics, records

_WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "SCRAM-SHA-512": ("SASL", {}),
    "SCRAM-SHA-256": ("SASL", {"mechanism": "SCRAM-SHA-256"}),
    "PLAIN": ("SASL", {"mechanism": "PLAIN"}),
    "without TLS": ("OPEN", {}),
    "mTLS": ("MTLS", {}),
}


def _brokers(secured: Secured, way: str) -> Brokers:
    door, more = _WAYS[way]
    if door == "MTLS":
        issued = secured.authority.issue(USER)
        more = {"cert_file": issued.cert, "key_file": issued.key}
    return secured.brokers(door, **more)


@pytest.mark.parametrize("way", _WAYS)
def test_a_producer_and_a_consumer_come_in(secured: Secured, way: str) -> None:
    topic, brokers = f"tls_{secrets.token_hex(4)}", _brokers(secured, way)
    make_topics(secured.kafka.bootstrap, topic)
    publish(brokers, [Record(topic, b"k", b"v")])
    assert [r.value for r in records(secured.kafka.bootstrap, topic)] == [b"v"]
    assert topic in asyncio.run(_topics(brokers))


@pytest.mark.parametrize("way", _WAYS)
def test_librdkafka_comes_in(secured: Secured, way: str) -> None:
    admin = AdminClient(_brokers(secured, way).librdkafka())
    assert admin.list_topics(timeout=30).brokers


@pytest.mark.parametrize(
    ("door", "said"),
    [
        ("EXPIRED", "has expired: have the server renew it"),
        ("FOREIGN", "was issued by none of"),
        ("ELSEWHERE", "is for another name: connect by a name that it holds"),
    ],
)
def test_a_bad_certificate_is_refused_with_what_to_do(
    secured: Secured, door: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR), pytest.raises(InfrastructureError):
        asyncio.run(_topics(secured.brokers(door)))
    assert said in caplog.text
    assert "the certificate of 127.0.0.1" in caplog.text


def test_client_with_a_refused_certificate_logs_the_refusal(
    secured: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    issued = secured.authority.issue(USER, expired=True)
    brokers = secured.brokers("MTLS", cert_file=issued.cert, key_file=issued.key)
    with caplog.at_level(logging.ERROR), pytest.raises(InfrastructureError):
        asyncio.run(_topics(brokers))
    assert "a server refuses our certificate" in caplog.text


def test_a_wrong_password_opens_nothing(secured: Secured, tmp_path: Any) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("something else")
    with pytest.raises(InfrastructureError):
        asyncio.run(_topics(secured.brokers("SASL", password_file=wrong)))


async def _topics(brokers: Brokers) -> list[str]:
    async with leave_taken(), KafkaLogs(brokers) as logs:
        return list(await logs.topics())
