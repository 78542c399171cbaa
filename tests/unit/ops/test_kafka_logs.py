"""Partitions without a leader delay no reader, and are reported as unknown, not as empty."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition

from services.ops.audit.audit_data import AuditData
from services.ops.audit.run import report_leaderless
from services.ops.audit.settled_log import SettledLog
from services.ops.findings import Report, Source
from services.ops.kafka_logs import KafkaLogs, LogRecord
from services.ops.kafka_packed_requests import LeadersRequest
from shared import wire
from shared.errors import InfrastructureError
from shared.kafka_security import Brokers

HERE, AWAY = Source("events.x", 0), Source("events.x", 1)


class Admin:
    """Of the topic's two partitions the first has a leader."""

    async def _send_request(self, _: LeadersRequest) -> SimpleNamespace:
        partitions = [(HERE.partition, 1, 1), (AWAY.partition, -1, 1)]
        return SimpleNamespace(topics=[(0, HERE.topic, False, partitions)])


class Client:
    """It knows all leaders at once."""

    async def set_topics(self, _: set[str]) -> None:
        await asyncio.sleep(0)


class Consumer:
    """Requests have no effect."""

    _client = Client()

    def assign(self, _: Any) -> None:
        pass

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset()

    def seek(self, *_: Any) -> None:
        pass

    async def position(self, _: TopicPartition) -> int:
        return 0

    async def getmany(self, *_: TopicPartition, **__: Any) -> dict[Any, Any]:
        await asyncio.sleep(0)
        return {}

    async def beginning_offsets(self, of: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(of, 3)

    async def end_offsets(self, of: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(of, 7)


@pytest.fixture
def logs() -> KafkaLogs:
    logs = KafkaLogs(Brokers("nowhere:1"))
    logs._admin, logs._consumer = Admin(), Consumer()
    return logs


def test_a_partition_without_a_leader_is_left_out_and_named(logs: KafkaLogs) -> None:
    assert asyncio.run(logs.spans([HERE.topic, "events.never"])) == {HERE: (3, 7)}
    assert logs.leaderless == {AWAY}


def test_partition_that_loses_its_leader_during_a_read_raises_instead_of_waiting(logs: KafkaLogs) -> None:
    async def read() -> list[LogRecord]:
        return [record async for record in logs.read({AWAY: (0, 7)})]

    with pytest.raises(InfrastructureError, match=f"no broker leads {AWAY}"):
        asyncio.run(read())


@pytest.mark.parametrize(
    ("source", "goes_on"), [(HERE, True), *((Source(t, 0), False) for t in (wire.USER_ERRORS, wire.SETTLED))]
)
def test_without_a_part_of_onramps_own_notes_no_partition_is_judged(source: Source, *, goes_on: bool) -> None:
    data = AuditData(
        databases={},
        settled=SettledLog(),
        group={},
        parked={},
        diverted={},
        markers={},
        spans={},
        leaderless=frozenset({source}),
    )
    report = Report(leaderless=[str(source)])
    assert report_leaderless(data, report) is goes_on
    assert not report.balanced
    assert str(source) in report.unchecked[0]
