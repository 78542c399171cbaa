"""Leaders that are down, silent or failing omit only their own partitions from the answer."""

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import NodeNotReadyError

from shared.kafka_read.leaders import Leaders
from shared.kafka_read.offsets import Partition
from shared.kafka_security import Brokers

NEAR, FAR = Partition("events.near", 0), Partition("events.far", 0)
_JOBS_PATIENCE = 8.0


class _Client:
    """Brokers 1 and 2: each leads one partition, and answers with an error code, or not at all."""

    def __init__(self, codes: dict[int, int | None]) -> None:
        self.codes = codes
        self.looked = 0
        self.built: list[Any] = []
        #: From this look on they answer so.
        self.at_look: tuple[int, dict[int, int | None]] = (-1, {})
        self.cluster = SimpleNamespace(leader_for_partition=self._leader)

    def _leader(self, p: TopicPartition) -> int:
        return 1 if p.topic == NEAR.topic else 2

    def force_metadata_update(self) -> None:
        self.looked += 1
        if self.looked == self.at_look[0]:
            self.codes = self.at_look[1]

    async def send(self, node: int, request: Any) -> Any:
        code = self.codes[node]
        if code is None:
            raise NodeNotReadyError
        [(topic, [(number, *_)])] = request._topics
        self.built.append(request.build(lambda *fields: fields))
        return SimpleNamespace(API_KEY=2, topics=[(topic, [(number, code, -1, 7, 3)])])


def _leaders(codes: dict[int, int | None]) -> tuple[Leaders, _Client]:
    leaders, client = Leaders.__new__(Leaders), _Client(codes)
    leaders._client, leaders._logged = client, {}
    return leaders, client


@pytest.mark.parametrize("code", [None, 3, 5, 6, 9, 56, 74, 75, 78, 1, 29, 43, -1])
def test_failing_leader_is_omitted_and_other_leaders_are_reported(code: int | None) -> None:
    leaders, client = _leaders({1: 0, 2: code})
    assert asyncio.run(leaders.beginning_offsets([NEAR, FAR])) == {NEAR: 7}
    assert asyncio.run(leaders.last_stable_offsets([NEAR, FAR], patient=True)) == {NEAR: (7, 3)}
    assert client.looked == 2


def test_end_offsets_include_uncommitted_records_and_stable_offsets_exclude_them() -> None:
    leaders, client = _leaders({1: 0, 2: 6})
    assert asyncio.run(leaders.end_offsets([NEAR, FAR])) == {NEAR: 7}
    assert asyncio.run(leaders.since([NEAR, FAR], 1.5)) == {NEAR: 7}
    asyncio.run(leaders.last_stable_offsets([NEAR], patient=False))
    assert [(isolation, of) for _, isolation, of in client.built] == [
        (0, [(NEAR.topic, [(0, -1, -1)])]),
        (0, [(FAR.topic, [(0, -1, -1)])]),
        (1, [(NEAR.topic, [(0, -1, 1500)])]),
        (1, [(FAR.topic, [(0, -1, 1500)])]),
        (1, [(NEAR.topic, [(0, -1, -1)])]),
    ]


@pytest.mark.parametrize(("code", "times"), [(6, 0), (56, 0), (78, 0), (29, 1)])
def test_leader_error_is_logged_once_until_recovery_if_an_operator_may_have_to_fix_it(
    code: int, times: int, caplog: pytest.LogCaptureFixture
) -> None:
    leaders, client = _leaders({1: 0, 2: code})
    for _ in range(3):
        asyncio.run(leaders.beginning_offsets([NEAR, FAR]))
    said = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert [(r.topic, r.reason) for r in said] == [  # type: ignore[attr-defined]
        (FAR.topic, "TopicAuthorizationFailedError")
    ] * times
    client.codes[2] = 0
    asyncio.run(leaders.beginning_offsets([NEAR, FAR]))
    client.codes[2] = code
    asyncio.run(leaders.beginning_offsets([NEAR, FAR]))
    assert len([r for r in caplog.records if r.levelno == logging.ERROR]) == 2 * times


def test_while_no_broker_answers_a_plan_waits_and_a_look_does_not() -> None:
    leaders, client = _leaders({1: None, 2: None})

    async def both() -> Any:
        async with asyncio.timeout(_JOBS_PATIENCE):
            assert await leaders.beginning_offsets([NEAR, FAR]) == {}
            assert await leaders.last_stable_offsets([NEAR, FAR], patient=False) == {}
        client.at_look = (client.looked + 2, {1: 0, 2: 0})
        return await leaders.last_stable_offsets([NEAR, FAR], patient=True)

    assert asyncio.run(both()) == {NEAR: (7, 3), FAR: (7, 3)}


@contextmanager
def _silent() -> Iterator[int]:
    """The port of a frozen process, whose machine accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_frozen_broker_is_left_out_before_the_writer_loses_its_patience() -> None:
    async def ask(port: int) -> dict[Partition, int]:
        leaders = Leaders(Brokers(f"127.0.0.1:{port}"))
        leaders._client.cluster = SimpleNamespace(
            leader_for_partition=lambda _: 1,
            broker_metadata=lambda _: SimpleNamespace(host="127.0.0.1", port=port),
        )
        leaders._client.force_metadata_update = lambda: None
        async with asyncio.timeout(_JOBS_PATIENCE):
            return await leaders.beginning_offsets([NEAR])

    with _silent() as port:
        assert asyncio.run(ask(port)) == {}
