"""The offset at which a halted partition continues after an operator's decision."""

import asyncio
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from services.writer.batching.byte_sizes import ByteSizes
from services.writer.batching.fair_share import FairShare
from services.writer.batching.row_rates import RateLimiter
from services.writer.databases.diverted_index import DivertedIndex
from services.writer.driver.partition_tracker import PartitionTracker
from services.writer.model.next_offsets import Position
from services.writer.model.routes import Routes
from services.writer.partitions.partition_halts import Entry
from services.writer.partitions.plan_log import PlanLog
from shared.kafka_read.leaders import StableOffset
from shared.kafka_read.offsets import Partition, Range

P = Partition("events.order_placed", 0)
TOPIC = "a-topic"
IDS = {P.topic: TOPIC}
EPOCH = 2


class _Log:
    """A log from `begin` to 12; leaders after the stored epoch began at `cut`."""

    def __init__(self, cut: int) -> None:
        self.cut = cut
        self.begin: int | None = 0
        self.generations: dict[Partition, str] = {}

    async def reached(self, epochs: Mapping[Partition, int]) -> dict[Partition, int]:
        return dict.fromkeys(epochs, self.cut)

    async def last_stable_offsets(
        self, partitions: Iterable[Partition], **_: bool
    ) -> dict[Partition, StableOffset]:
        return {p: StableOffset(12, 5) for p in partitions}

    async def beginning_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        return {} if self.begin is None else dict.fromkeys(partitions, self.begin)


class _Yes:
    async def accepted(self, halted: Mapping[Partition, str]) -> list[Partition]:
        return list(halted)


class _Scene:
    """The writer is at offset 6, and nothing of an ended writer's plan above it is settled."""

    def __init__(self, cut: int) -> None:
        self.plan_log, routes = PlanLog(), Routes("main")
        planned = self.plan_log.plan_entries(1, [Range(TOPIC, P, 6, 10)], routes)
        for key, value in [*planned, *self.plan_log.leader_entries({(TOPIC, 0): 3})]:
            self.plan_log.apply(key, value)
        self.log = _Log(cut)
        databases: Any = SimpleNamespace(
            names=["main"], with_unconfigured=lambda: ["main"], positions={P: Position(TOPIC, 6)}
        )
        log: Any = self.log
        self.partitions = PartitionTracker(
            cluster=log,
            databases=databases,
            plan_log=self.plan_log,
            group={},
            epoch=EPOCH,
            index=DivertedIndex(),
            rate_limiter=RateLimiter({}),
            fair_share=FairShare(1),
            sizes=ByteSizes(1 << 20),
        )
        self.partitions._decisions = _Yes()  # type: ignore[assignment]
        self.partitions.record = self._record  # type: ignore[method-assign]

    async def _record(self, entries: Iterable[Entry]) -> None:
        for key, value in entries:
            self.plan_log.apply(key, value)

    async def halt(self) -> None:
        await self.partitions._ends(await self.log.last_stable_offsets([P]))
        assert P in self.partitions.halted

    async def go_on(self) -> int | None:
        """The offset at which it continues; None: it is halted as before."""
        await self.partitions._resume_accepted(IDS)
        line = self.plan_log.halts.accepted.get((TOPIC, 0))
        return line.start if line else None


@pytest.mark.parametrize(("leads_now", "goes_on"), [(4, 4), (8, 6)], ids=["the same", "a better replica"])
def test_it_goes_on_with_nothing_left_out_between_the_stand_and_the_log(leads_now: int, goes_on: int) -> None:
    async def play() -> None:
        scene = _Scene(cut=4)
        await scene.halt()
        scene.log.cut = leads_now
        assert await scene.go_on() == goes_on

    asyncio.run(play())


def test_partition_with_an_unknown_epoch_resumes_at_the_writers_position() -> None:
    async def play() -> None:
        scene = _Scene(cut=-1)
        await scene.halt()
        assert "no leader epoch as late as 3" in scene.partitions.halted[P]
        assert await scene.go_on() == 6

    asyncio.run(play())


def test_partition_stays_halted_while_the_log_start_offset_is_unknown() -> None:
    async def play() -> None:
        scene = _Scene(cut=4)
        await scene.halt()
        scene.log.begin = None
        assert await scene.go_on() is None
        scene.log.begin = 5
        assert await scene.go_on() == 5

    asyncio.run(play())
