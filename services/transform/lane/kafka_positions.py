"""The positions of a lane: the group's offsets, and the first positions, which lane 0 commits for all lanes.

A position counts only with its topic's UUID: a recreated topic is read from its beginning.  Kafka forgets the
offsets of a group after a week without commits, so a lost offset is restored from the totals.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from services.transform.lane.kafka_offsets import Committed, stable_offsets
from services.transform.lane.kafka_transaction import STEP_SECONDS, LaneProducer
from services.transform.lane.order import LaneOrder
from shared import wire
from shared.errors import FENCED, KAFKA_UNAVAILABLE, InfrastructureError
from shared.kafka_read.fetch import Fetcher
from shared.kafka_read.leaders import Leaders
from shared.kafka_read.offsets import Partition
from shared.kafka_topic_ids import TopicIdsRequest, named_topics
from shared.polling import read_to
from shared.transform_totals import Position, Totals, TotalsRecord

_EPOCHS: Final = Partition(wire.TRANSFORMERS, 0)
_SECONDS: Final = 6.0


@dataclass(slots=True)
class LanePositions:
    """The positions of a lane's partitions, and those that have none yet."""

    positions: dict[Partition, Position] = field(default_factory=dict)
    #: Partitions of any lane without a position, with their topic's UUID.
    missing: dict[Partition, str] = field(default_factory=dict)
    #: Whether the transform has read a partition of the source topic before.
    has_begun: bool = False


class PositionReader:
    """Reads epochs, positions and bounds of logs with a run's clients."""

    def __init__(self, order: LaneOrder, producer: LaneProducer, fetcher: Fetcher) -> None:
        self._order = order
        self._producer = producer
        self._fetcher = fetcher
        self._leaders = Leaders(order.brokers, fetcher.client)

    async def refuse_old_epoch(self) -> None:
        """Raise `InfrastructureError` (FENCED) if a newer driver has taken an epoch.

        The caller has fenced its lane before: a newer driver fences it after its epoch's record.
        """
        async with _kafka("cannot read the newest epoch"):
            await self._fetcher.know({wire.TRANSFORMERS})
            end = (await self._leaders.end_offsets([_EPOCHS])).get(_EPOCHS)
        if end is None:
            raise InfrastructureError(KAFKA_UNAVAILABLE, f"{_EPOCHS} has no leader for now")
        if end > self._order.epoch + 1:
            raise InfrastructureError(
                FENCED, f"this run is of epoch {self._order.epoch}, and {end - 1} is the newest"
            )

    async def topic_ids(self) -> dict[str, str]:
        """Return the UUIDs of the topics that the lane reads and that exist."""
        names = [self._order.source_topic, *([wire.TRANSFORM_REPLAYS] if self._order.lane == 0 else [])]
        return {name: topic_id for name, (topic_id, _) in (await self._topics(names)).items()}

    async def _topics(self, names: Iterable[str]) -> dict[str, tuple[str, list[int]]]:
        async with _kafka("cannot read the topics' ids"):
            client = self._fetcher.client
            answer = await client.send(client.get_random_node(), TopicIdsRequest(names))
        return {name: (each.topic_id, sorted(each.leaders)) for name, each in named_topics(answer).items()}

    async def read(self) -> LanePositions:
        """Return the lane's positions.  Raise `InfrastructureError`."""
        order = self._order
        names = [order.source_topic, wire.TRANSFORM_REPLAYS]
        topics = await self._topics(names)
        await self._fetcher.know(set(topics))
        async with _kafka(f"cannot read the offsets of group {order.group}"):
            committed = await stable_offsets(self._producer.client, order.group)
        known = {p: position for p, c in committed.items() if (position := _position(c))}
        found = LanePositions(has_begun=any(p.topic == order.source_topic for p in known))
        for topic, (topic_id, numbers) in topics.items():
            for p in (Partition(topic, number) for number in numbers):
                position = known.get(p)
                if position is None:
                    found.missing[p] = topic_id
                elif order.has(p) and position.totals.topic_id == topic_id:
                    found.positions[p] = position
                elif order.has(p):
                    found.positions |= await self._at_beginning({p: topic_id})
        return found

    async def first(self, found: LanePositions) -> dict[Partition, Position]:
        """Return first positions for all missing partitions; only lane 0 calls it.

        A position that Kafka has forgotten is in the totals.  Before the first position of the topic, `start`
        of the transform applies; later partitions and topic generations are read from their beginning.
        """
        totals = await self._stored_totals()
        restored = {
            p: totals[p, topic_id] for p, topic_id in found.missing.items() if (p, topic_id) in totals
        }
        has_begun = found.has_begun or any(p.topic == self._order.source_topic for p, _ in totals)
        rest = {p: topic_id for p, topic_id in found.missing.items() if p not in restored}
        now = {
            p: topic_id
            for p, topic_id in rest.items()
            if p.topic == wire.TRANSFORM_REPLAYS or (self._order.start == "now" and not has_begun)
        }
        earliest = {p: topic_id for p, topic_id in rest.items() if p not in now}
        return restored | await self._at_beginning(earliest) | await self._at_end(now)

    async def nearest(self, partition: Partition, position: Position) -> Position:
        """Return the position moved to the nearest end of the log, with skipped offsets counted."""
        async with _kafka(f"cannot read the bounds of {partition}"):
            first = (await self._leaders.beginning_offsets([partition])).get(partition)
            last_stable = await self._leaders.last_stable_offsets([partition], patient=False)
        if first is None or partition not in last_stable:
            raise InfrastructureError(KAFKA_UNAVAILABLE, f"{partition} has no leader for now")
        moved = max(first, min(position.next, last_stable[partition].offset))
        return Position(moved, position.totals.plus(skipped=max(moved - position.next, 0)))

    async def _at_beginning(self, topic_ids: Mapping[Partition, str]) -> dict[Partition, Position]:
        async with _kafka("cannot read first offsets"):
            offsets = await self._leaders.beginning_offsets(topic_ids) if topic_ids else {}
        return _positions(topic_ids, offsets)

    async def _at_end(self, topic_ids: Mapping[Partition, str]) -> dict[Partition, Position]:
        async with _kafka("cannot read end offsets"):
            last_stable = (
                await self._leaders.last_stable_offsets(topic_ids, patient=False) if topic_ids else {}
            )
        return _positions(topic_ids, {p: each.offset for p, each in last_stable.items()})

    async def _stored_totals(self) -> dict[tuple[Partition, str], Position]:
        """Return this transform's positions in `onramp.transformed`, by partition and topic's UUID."""
        totals: dict[tuple[Partition, str], Position] = {}
        consumer = AIOKafkaConsumer(
            **self._order.brokers.aiokafka(), enable_auto_commit=False, isolation_level="read_committed"
        )
        partition = TopicPartition(wire.TRANSFORMED, 0)
        try:
            async with _kafka(f"cannot read {wire.TRANSFORMED}"):
                await consumer.start()
                consumer.assign([partition])
                await consumer.seek_to_beginning(partition)
                ends = await consumer.end_offsets([partition])
                async for record in read_to(consumer, _ignore, ends, _SECONDS):
                    parsed = TotalsRecord.parse(record.value)
                    if parsed and parsed.transform == self._order.name:
                        totals[parsed.partition, parsed.position.totals.topic_id] = parsed.position
        finally:
            await consumer.stop()
        return totals


def _position(committed: Committed) -> Position | None:
    totals = Totals.of_metadata(committed.metadata)
    return Position(committed.offset, totals) if totals else None


def _positions(
    topic_ids: Mapping[Partition, str], offsets: Mapping[Partition, int]
) -> dict[Partition, Position]:
    if missing := topic_ids.keys() - offsets.keys():
        raise InfrastructureError(KAFKA_UNAVAILABLE, f"{min(missing)} has no leader for now")
    return {
        p: Position(offsets[p], Totals(topic_id=topic_id, first=offsets[p]))
        for p, topic_id in topic_ids.items()
    }


def _ignore(*_: object) -> None:
    """Skip a record that no client can parse."""


@asynccontextmanager
async def _kafka(text: str) -> AsyncIterator[None]:
    """Limit a step's time, and raise its errors of Kafka as `InfrastructureError`."""
    try:
        async with asyncio.timeout(STEP_SECONDS):
            yield
    except (KafkaError, TimeoutError, OSError) as e:
        raise InfrastructureError(KAFKA_UNAVAILABLE, f"{text}: {type(e).__name__}") from e
