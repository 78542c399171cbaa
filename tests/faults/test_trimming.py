"""Trimming of `onramp.system_errors`: drained records are deleted, and no other records."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest

from services.writer.batching.row_rates import RateLimiter
from services.writer.databases.diverted_index import DivertedIndex
from services.writer.databases.drain import Drainer
from services.writer.databases.trim import RetentionCleanup
from services.writer.kafka.cluster import Cluster
from services.writer.kafka.producer import RecordMetadata
from services.writer.model.routes import Routes
from services.writer.park.diverted_topic import (
    EmptyRanges,
    RangeMarker,
    closing_records,
    divert,
    key_of,
    parse_header,
)
from services.writer.postgres.pool import transaction
from services.writer.settle import ledger
from services.writer.settle.event_type_pauses import PausePolicy
from shared import wire
from shared.kafka_read.offsets import Generation, Partition, Range
from shared.kafka_read.records import PartitionSlice
from shared.kafka_security import Brokers
from shared.partitioner import partition_of
from shared.settings import KafkaSettings
from tests.faults.conftest import Ground
from tests.fixtures.fix_postgres import Database
from tests.fixtures.writer import arrivals, database_of, event, landed

ROUTES = Routes("onramp")
EPOCH = 1


class Stage:
    """An unreachable database, its waiting events, and a driver that starts and stops."""

    def __init__(self, bootstrap: str, dsn: str) -> None:
        self.bootstrap = bootstrap
        self.database = database_of(dsn)
        self.name = f"event_{uuid4().hex[:8]}"
        self.partition = Partition(wire.topic_of(self.name), 0)
        self.topic_id = str(uuid4())
        self.at = 0

    @asynccontextmanager
    async def driver(self) -> AsyncIterator[Cluster]:
        positions = await Cluster(KafkaSettings(bootstrap=self.bootstrap), r"events\..+").start()
        try:
            await positions.own_topics.ensure()
            # Leaders are known of what is in view, so that a refresh of what is known forgets no other.
            await positions.assign([Partition(wire.SYSTEM_ERRORS, n) for n in range(2)])
            yield positions
        finally:
            await positions.stop()

    async def index(self, positions: Cluster) -> DivertedIndex:
        """The state that a driver reads if it starts now."""
        index = DivertedIndex()
        async for record in positions.log(wire.SYSTEM_ERRORS):
            head = parse_header(dict(record.headers))
            if isinstance(head, (RangeMarker, EmptyRanges)) and self._is_ours(head):
                index.add(head, RecordMetadata(record.partition, record.offset), record.timestamp / 1000)
        return index

    def _is_ours(self, found: RangeMarker | EmptyRanges) -> bool:
        ranges = [found.range] if isinstance(found, RangeMarker) else found.ranges
        return {r.partition for r in ranges} == {self.partition}

    async def divert(self, positions: Cluster, index: DivertedIndex, n: int, *, close: bool = True) -> int:
        """Divert n events, with their marker; the offset of the first on the topic."""
        values = [event(f"{self.name}-{i}", self.name) for i in range(self.at, self.at + n)]
        run = PartitionSlice(self.partition, arrivals(values, first=self.at, partition=self.partition))
        found = await asyncio.to_thread(divert, Brokers(self.bootstrap), self.database.name, [run])
        count, first = found.get(self.partition, (0, -1))
        range_ = Range(self.topic_id, self.partition, self.at, self.at + max(n, 1))
        if close:
            self.at = range_.end
            marker = RangeMarker(self.database.name, range_, count=count, first=first, digest=ROUTES.digest)
            (closed,) = closing_records([marker])
            (place,) = await positions.append([closed.as_record()])
            index.add(closed, place, time.time())
        return first

    async def begin(self, positions: Cluster) -> int:
        """The first offset that the partition of the stage's events still holds."""
        mine = Partition(wire.SYSTEM_ERRORS, self.number)
        return (await positions.beginning_offsets([mine]))[mine]

    @property
    def number(self) -> int:
        return partition_of(key_of(self.database.name, self.partition), 2)

    async def drain(self, positions: Cluster, index: DivertedIndex) -> int:
        drainer = Drainer(
            positions,
            index,
            RateLimiter({}),
            epoch=EPOCH,
            brokers=Brokers(self.bootstrap),
            pause_policy=PausePolicy(),
            on_reports=lambda _: None,
        )
        return await drainer.drain(self.database, {ROUTES.digest: ROUTES})

    def claim(self) -> dict[Generation, int]:
        with transaction(self.database, "driver") as conn:
            return ledger.claim(conn, {Generation(self.topic_id, self.partition): 0}, EPOCH)


@pytest.fixture
def stage(ground: Ground, migrated: Database) -> Stage:
    stage = Stage(ground.kafka.bootstrap, migrated.dsn)
    stage.claim()
    return stage


def test_drained_ranges_are_trimmed_and_waiting_ranges_survive_a_restart(stage: Stage) -> None:
    async def play() -> None:
        async with stage.driver() as positions:
            index = await stage.index(positions)
            await stage.divert(positions, index, 3)
            assert await stage.drain(positions, index) == 1
            await stage.divert(positions, index, 0)  # an empty range is closed as well
            first = await stage.divert(positions, index, 4)
            held = index.lowest_needed()[stage.number]
            await RetentionCleanup(positions, index, keep_s=0).trim()
            assert await stage.begin(positions) == held <= first
        async with stage.driver() as positions:  # as after a crash: what is known is what the topic says
            index = await stage.index(positions)
            index.remove_settled(stage.database.name, stage.claim())
            assert index.events(stage.database.name) == 4
            await RetentionCleanup(positions, index, keep_s=0).trim()
            assert await stage.drain(positions, index) == 2
            await RetentionCleanup(positions, index, keep_s=0).trim()
            assert await stage.begin(positions) > first
            assert (await stage.index(positions)).lowest_needed() == {}
        assert landed(stage.database.dsn, stage.name) == 7

    asyncio.run(play())


def test_range_left_open_for_another_driver_is_retained_until_its_age_limit(stage: Stage) -> None:
    async def play() -> None:
        async with stage.driver() as positions:
            index = await stage.index(positions)
            first = await stage.divert(positions, index, 3, close=False)
            await RetentionCleanup(positions, index, keep_s=3600).trim()
            assert await stage.begin(positions) <= first
            await RetentionCleanup(positions, index, keep_s=0).trim()
            assert await stage.begin(positions) > first

    asyncio.run(play())
