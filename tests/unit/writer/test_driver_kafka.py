"""The driver's Kafka, where there is none."""

import asyncio
import gc
import warnings
from collections.abc import Iterable

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import GroupCoordinatorNotAvailableError, KafkaError, NodeNotReadyError

from services.writer.kafka import cluster
from services.writer.kafka.cluster import Cluster
from shared import wire
from shared.errors import InfrastructureError
from shared.kafka_read.offsets import Partition
from shared.polling import read_to
from shared.settings import KafkaSettings
from shared.topics import OWN_TOPICS


async def _read_of_nobody() -> None:
    of = Cluster(KafkaSettings(bootstrap="127.0.0.1:1"), ".*")
    try:
        with pytest.raises(KafkaError):
            async for _ in of.log(wire.SETTLED):
                pass
    finally:
        await of.stop()


def test_a_log_that_cannot_be_read_leaves_no_client_behind() -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        asyncio.run(_read_of_nobody())
        gc.collect()
    assert [str(w.message) for w in said if w.category is ResourceWarning] == []


class _NoCoordinator:
    """An admin client of a Kafka that moves a group from one broker to another."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def group_offsets(self, _: str, seconds: float) -> dict[object, object]:
        self.seconds = seconds
        raise self._error


@pytest.mark.parametrize("error", [GroupCoordinatorNotAvailableError(), NodeNotReadyError(), TimeoutError()])
def test_group_offsets_are_unknown_while_the_coordinator_is_unavailable(error: Exception) -> None:
    of = Cluster.__new__(Cluster)
    of._admin = _NoCoordinator(error)
    assert asyncio.run(of.group_offsets_now()) is None
    assert of._admin.seconds == 0, "a batch may wait"
    with pytest.raises(type(error)):
        asyncio.run(of.group_offsets())


class _Unanswered:
    """A consumer of an unreachable Kafka."""

    async def position(self, _: TopicPartition) -> int:
        return 3

    async def getmany(self, *_: TopicPartition, **__: int) -> dict[TopicPartition, list[object]]:
        return {}

    def assignment(self) -> set[TopicPartition]:
        return set()

    async def commit(self, _: object) -> None:
        await asyncio.Event().wait()


def test_a_log_whose_broker_goes_away_is_not_read_for_ever() -> None:
    async def read() -> None:
        ends = {TopicPartition(wire.SETTLED, 0): 4}
        async for _ in read_to(_Unanswered(), lambda *_: None, ends, seconds=0):
            pass

    with pytest.raises(InfrastructureError, match=r"no record of onramp\.settled/0 arrived"):
        asyncio.run(asyncio.wait_for(read(), 60))


def test_without_a_coordinator_a_commit_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_COORDINATOR_SECONDS", 0)
    of = Cluster.__new__(Cluster)
    of._consumer, of.generations = _Unanswered(), {}
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(of.commit({Partition("events.a", 0): 1}), 60))


class _Leaders:
    """Leaders of which one does not answer the first requests."""

    def __init__(self, away: int) -> None:
        self._away = away
        self.followed: list[list[str]] = []

    async def follow(self, topics: Iterable[str]) -> None:
        self.followed.append(list(topics))

    async def end_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        self._away -= 1
        return {p: 7 for p in partitions if p.number != 1 or self._away < 0}


def _of(leaders: _Leaders) -> Cluster:
    it = Cluster.__new__(Cluster)
    it._leaders, it._follows_own = leaders, False
    return it


def test_a_leader_that_changes_is_waited_for_and_own_topics_are_known() -> None:
    leaders = _Leaders(away=3)
    found = asyncio.run(_of(leaders)._of_all(leaders.end_offsets, wire.SYSTEM_ERRORS, [0, 1]))
    assert found == {0: 7, 1: 7}
    assert [set(topics) for topics in leaders.followed] == [{t.name for t in OWN_TOPICS}]


def test_a_partition_of_an_own_topic_that_has_no_leader_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_LEADERS_SECONDS", 0.1)
    leaders = _Leaders(away=1000)
    with pytest.raises(InfrastructureError, match=rf"{wire.SYSTEM_ERRORS}/1 has no leader"):
        asyncio.run(_of(leaders)._of_all(leaders.end_offsets, wire.SYSTEM_ERRORS, [0, 1]))
