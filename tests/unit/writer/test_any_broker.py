"""Requests that any broker can answer, while some brokers are down or frozen."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    NodeNotReadyError,
    RequestTimedOutError,
)

from shared.kafka_read import any_broker
from shared.kafka_read.any_broker import AnyBroker

_JOBS_PATIENCE = 8.0


class _Client:
    """Brokers that answer with their number, raise, or (None) never answer."""

    def __init__(self, brokers: dict[int, Any]) -> None:
        self._brokers = brokers
        self.asked: list[int] = []
        self.looked = 0
        self.cluster = SimpleNamespace(brokers=lambda: [SimpleNamespace(nodeId=n) for n in brokers])

    def force_metadata_update(self) -> None:
        self.looked += 1

    async def send(self, node: int, _: object) -> Any:
        self.asked.append(node)
        answer = self._brokers[node]
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        return node if answer is True else answer


def _admin(brokers: dict[int, Any]) -> tuple[AnyBroker, _Client]:
    admin, client = AnyBroker.__new__(AnyBroker), _Client(brokers)
    admin._client, admin._silent, admin._closed = client, set(), True
    return admin, client


async def _asked(admin: AnyBroker, times: int) -> list[int]:
    async with asyncio.timeout(_JOBS_PATIENCE):
        return [await admin._send_request("who is there?") for _ in range(times)]


@pytest.mark.parametrize(
    "gone", [NodeNotReadyError(), KafkaConnectionError(), RequestTimedOutError(), TimeoutError()]
)
def test_a_broker_that_is_gone_is_not_all_of_kafka(gone: Exception) -> None:
    admin, client = _admin({1: gone, 2: gone, 3: True})
    assert asyncio.run(_asked(admin, 20)) == [3] * 20
    assert client.looked == len(client.asked) - 20


def test_a_broker_that_is_frozen_is_waited_for_once_and_asked_last_from_then_on() -> None:
    admin, client = _admin({1: None, 2: True, 3: True})
    assert set(asyncio.run(_asked(admin, 50))) == {2, 3}
    assert client.asked.count(1) <= 1


def test_a_broker_that_is_back_is_asked_as_the_others_are() -> None:
    admin, client = _admin({1: True, 2: True})
    admin._silent.add(1)
    client._brokers[2] = NodeNotReadyError()
    assert asyncio.run(_asked(admin, 1)) == [1]
    assert admin._silent == {2}


def test_request_raises_while_all_brokers_are_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(any_broker, "_BROKER_SECONDS", 0.01)
    for brokers in ({1: NodeNotReadyError()}, {1: None}, {}):
        admin, _ = _admin(brokers)
        with pytest.raises(KafkaError):
            asyncio.run(_asked(admin, 1))


def test_request_for_a_specific_broker_is_sent_to_no_other_broker() -> None:
    admin, client = _admin({1: NodeNotReadyError(), 2: True})
    with pytest.raises(NodeNotReadyError):
        asyncio.run(admin._send_request("are you the coordinator?", 1))
    assert client.asked == [1]
