"""A partition that cannot be read, as one with a corrupt batch, stops no other partition of its lane."""

import asyncio
from collections.abc import Collection, Mapping

import pytest

from services.transform.lane.order import LaneOrder
from services.transform.lane.source import Source
from shared.kafka_read.decompress import CorruptBatchError
from shared.kafka_read.fetch import NewRecords, OutOfRangeError
from shared.kafka_read.offsets import Partition
from shared.kafka_security import Brokers

PARTITIONS = [Partition("events.source", n) for n in range(8)]
ORDER = LaneOrder(
    name="made",
    lane=0,
    lanes=1,
    epoch=0,
    source_type="source",
    source_topic="events.source",
    start="now",
    digest="",
    event_types={},
    outputs=frozenset(),
    brokers=Brokers("127.0.0.1:1"),
    budget_seconds=1.0,
)


class Leader:
    """Moves each position by one, and fails for the partitions `corrupt`."""

    def __init__(self, corrupt: Collection[Partition]) -> None:
        self._corrupt = corrupt
        self.polled: list[set[Partition]] = []

    async def poll(self, positions: Mapping[Partition, int]) -> NewRecords:
        self.polled.append(set(positions))
        if any(p in self._corrupt for p in positions):
            raise CorruptBatchError("the record batch at offset 5 cannot be decompressed")
        return NewRecords([], {p: at + 1 for p, at in positions.items()})


def read(leader: Leader, partitions: list[Partition], times: int) -> Source:
    source = Source(ORDER, leader, dict.fromkeys(partitions, 5))

    async def run() -> None:
        for _ in range(times):
            await source.next()

    asyncio.run(run())
    return source


def test_the_other_partitions_are_read() -> None:
    corrupt = PARTITIONS[3]
    leader = Leader([corrupt])
    source = read(leader, PARTITIONS, 3)
    assert source.positions == {p: 5 if p == corrupt else 8 for p in PARTITIONS}
    assert list(source.unreadable) == [corrupt]
    assert "cannot be decompressed" in source.unreadable[corrupt]
    assert leader.polled[-2:] == [set(PARTITIONS) - {corrupt}] * 2


@pytest.mark.parametrize("partitions", [PARTITIONS[:1], PARTITIONS[:3]])
def test_without_another_partition_the_run_fails(partitions: list[Partition]) -> None:
    with pytest.raises(CorruptBatchError):
        read(Leader(PARTITIONS), partitions, 1)


def test_a_lost_position_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = Leader([])

    async def lost(_: Mapping[Partition, int]) -> NewRecords:
        raise OutOfRangeError(PARTITIONS[0], 5)

    monkeypatch.setattr(leader, "poll", lost)
    with pytest.raises(OutOfRangeError):
        read(leader, PARTITIONS, 1)
