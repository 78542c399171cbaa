"""Halted partitions come from a recent reading; the first page after a decision uses a new reading."""

import asyncio

import pytest

from services.admin.waiting_api.halts import Halts
from services.ops.kafka_logs import KafkaLogs
from services.ops.settled.reader import SettledReader
from shared.errors import InfrastructureError
from shared.kafka_security import Brokers

NOWHERE = Brokers("127.0.0.1:1")


def test_kafka_is_not_read_for_a_list_that_the_service_has_read_just_now() -> None:
    settled = SettledReader()
    settled.apply(b"halt/events.a/0", b'{"id": "1", "reason": "lost", "since": "2026-01-01T00:00:00Z"}')
    asyncio.run(settled.follow(KafkaLogs(NOWHERE), {}))
    halts = Halts("", {}, NOWHERE, settled, max_age_seconds=3600)
    assert [each["partition"] for each in halts.partitions()] == ["events.a/0"]
    settled.expire()
    with pytest.raises(InfrastructureError):
        halts.partitions()
