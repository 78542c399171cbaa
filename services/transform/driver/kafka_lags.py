"""The lags of all transforms: ends of their source partitions, compared with committed positions.

A lag only decides which lanes run; a run reads its positions itself.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from aiokafka.errors import KafkaError

from services.transform.lane.kafka_offsets import Committed
from services.transform.lane.order import group_of
from shared import wire
from shared.errors import KAFKA_UNAVAILABLE, InfrastructureError
from shared.kafka_read.any_broker import AnyBroker
from shared.kafka_read.leaders import Leaders
from shared.kafka_read.offsets import Partition
from shared.kafka_security import Brokers
from shared.transform_totals import Totals

_EPOCHS: Final = Partition(wire.TRANSFORMERS, 0)
#: The next turn retries a coordinator that is not ready.
_COORDINATOR_SECONDS: Final = 0.0


@dataclass(slots=True)
class Lag:
    """The lag of one transform."""

    #: Committed records that are not processed, by partition that has a position.
    events: dict[Partition, int] = field(default_factory=dict)
    #: Partitions without a position; lane 0 commits the first ones.
    without_position: set[Partition] = field(default_factory=set)

    @property
    def total(self) -> int:
        """Return the lag of all partitions."""
        return sum(self.events.values())


class Lags:
    """Requests ends and positions with one client for all transforms."""

    def __init__(self, brokers: Brokers) -> None:
        self._admin = AnyBroker(brokers)
        self._leaders = Leaders(brokers)
        self._followed: set[str] = set()
        self._partitions: dict[str, tuple[str, list[int]]] = {}
        self._ends: dict[Partition, int] = {}
        #: Next offsets by transform and partition, of the present topic generation.
        self._positions: dict[str, dict[Partition, int]] = {}

    async def start(self) -> None:
        """Connect.  Raise aiokafka's errors."""
        await self._admin.start()
        await self._leaders.start()

    async def stop(self) -> None:
        """Disconnect."""
        await self._leaders.stop()
        await self._admin.close()

    async def read_topics(self, names: Collection[str]) -> None:
        """Read UUIDs and partitions of the source topics that exist, and follow their leaders."""
        named = await self._admin.named_topics(names)
        partitions = {name: (each.topic_id, sorted(each.leaders)) for name, each in named.items()}
        changed = {name for name in names if partitions.get(name) != self._partitions.get(name)}
        if changed:  # positions of the topic's former generation do not count
            self._positions.clear()
            self._ends = {p: end for p, end in self._ends.items() if p.topic not in changed}
        self._partitions = partitions
        if self._followed != {*partitions, wire.TRANSFORMERS}:
            self._followed = {*partitions, wire.TRANSFORMERS}
            await self._leaders.follow(self._followed)

    async def read_ends(self) -> None:
        """Read the ends of committed records; without an answer, a partition's last end stays in use."""
        every = [Partition(name, n) for name, (_, numbers) in self._partitions.items() for n in numbers]
        if every:
            last_stable = await self._leaders.last_stable_offsets(every, patient=False)
            self._ends |= {p: each.offset for p, each in last_stable.items()}

    async def newest_epoch(self) -> int | None:
        """Return the newest epoch; None while its partition has no leader."""
        end = (await self._leaders.end_offsets([_EPOCHS])).get(_EPOCHS)
        return None if end is None else end - 1

    async def of(self, name: str, source_topic: str) -> Lag:
        """Return the lag of a transform; reads its positions from Kafka unless they are known."""
        if name not in self._positions:
            self._positions[name] = await self._read_positions(name)
        positions, lag = self._positions[name], Lag()
        for topic in (source_topic, wire.TRANSFORM_REPLAYS):
            for number in self._partitions.get(topic, ("", []))[1]:
                p = Partition(topic, number)
                if p not in positions:
                    lag.without_position.add(p)
                else:
                    lag.events[p] = self._events(p, positions[p])
        return lag

    def _events(self, p: Partition, position: int) -> int:
        """Return the lag of a partition; a position behind the end of the log needs a run, which pauses."""
        end = self._ends.get(p, position)
        return end - position if end >= position else 1

    def ends_and_positions(self, name: str, lag: Lag) -> tuple[dict[Partition, int], dict[Partition, int]]:
        """Return the ends and the positions of the partitions of `lag`."""
        positions = self._positions.get(name, {})
        return {p: self._ends.get(p, 0) for p in lag.events}, {p: positions.get(p, 0) for p in lag.events}

    async def _read_positions(self, name: str) -> dict[Partition, int]:
        """Return the group's offsets.  An offset of an earlier topic generation counts as the beginning."""
        try:
            offsets = await self._admin.group_offsets(group_of(name), _COORDINATOR_SECONDS)
        except (KafkaError, TimeoutError) as e:
            raise InfrastructureError(
                KAFKA_UNAVAILABLE, f"cannot read the offsets of {group_of(name)}: {type(e).__name__}"
            ) from e
        positions: dict[Partition, int] = {}
        for tp, each in offsets.items():
            p, committed = Partition(tp.topic, tp.partition), Committed(each.offset, each.metadata or "")
            if (totals := Totals.of_metadata(committed.metadata)) is not None and each.offset >= 0:
                topic_id, _ = self._partitions.get(p.topic, ("", []))
                positions[p] = each.offset if totals.topic_id == topic_id else 0
        return positions

    def update(self, name: str, positions: Mapping[Partition, int]) -> None:
        """Take over positions that a run or the totals report."""
        if name in self._positions:
            self._positions[name] |= positions

    def forget(self, name: str) -> None:
        """Read the positions of a transform again: a killed run has committed and reported nothing."""
        self._positions.pop(name, None)
