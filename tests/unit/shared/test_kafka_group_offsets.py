"""Committed offsets of a group while its coordinator moves or loads its log."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    KafkaError,
    NotCoordinatorForGroupError,
)
from aiokafka.structs import OffsetAndMetadata

from shared.kafka_group_offsets import GroupOffsetsClient

_PATIENCE = 8.0


class _Loads:
    """A coordinator that answers with these errors until it has read its log."""

    def __init__(self, *errors: type[KafkaError]) -> None:
        self._errors = list(errors)

    async def __call__(self, _: object, **__: object) -> dict[TopicPartition, OffsetAndMetadata]:
        if self._errors:
            raise self._errors.pop(0)
        return {TopicPartition("events.a", 0): OffsetAndMetadata(7, "")}


def _client() -> GroupOffsetsClient:
    client = GroupOffsetsClient.__new__(GroupOffsetsClient)
    client._closed = True
    return client


def test_a_coordinator_that_is_not_ready_yet_is_waited_for_and_no_longer_than_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    errors = (GroupCoordinatorNotAvailableError, GroupLoadInProgressError, NotCoordinatorForGroupError)
    client = _client()
    monkeypatch.setattr(client, "list_consumer_group_offsets", _Loads(*errors))
    offsets = asyncio.run(client.group_offsets("onramp-writer", _PATIENCE))
    assert [o.offset for o in offsets.values()] == [7]
    for error in errors:
        monkeypatch.setattr(client, "list_consumer_group_offsets", _Loads(error))
        with pytest.raises(error):
            asyncio.run(client.group_offsets("onramp-writer", 0))


def test_a_group_that_loads_is_not_one_without_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = SimpleNamespace(topics=[], error_code=GroupLoadInProgressError.errno)

    async def answered(*_: Any) -> SimpleNamespace:
        return answer

    monkeypatch.setattr(AIOKafkaAdminClient, "_send_request", answered)
    with pytest.raises(GroupLoadInProgressError):
        asyncio.run(_client().list_consumer_group_offsets("onramp-writer", group_coordinator_id=1))
    answer.error_code = 0
    assert asyncio.run(_client().list_consumer_group_offsets("onramp-writer", group_coordinator_id=1)) == {}
