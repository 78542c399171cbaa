"""Reads from `onramp.lake` how far each table of the lake is: the topic once, then its new records alone.

The positions are those that the lake service has recorded after its commits, so no storage is opened.
"""

from typing import Final, NamedTuple

from services.ops.findings import Source
from services.ops.kafka_logs import KafkaLogs, LogRecord
from services.ops.lake.lake_positions import LakePositions
from services.ops.topic_reader import TopicReader
from shared import wire
from shared.kafka_security import Brokers
from shared.lake.lake_topic import PositionKey
from shared.lake.transactions import TablePosition

_PROBES: Final = wire.topic_of(wire.PROBE_EVENT)
_BEGIN: Final = TablePosition(0, 0)


class LandedOffsets(NamedTuple):
    """A table in one partition of a topic generation: its offsets so far, and the number of its rows."""

    key: PositionKey
    #: The first offset that the table takes; None for a destination that was removed.
    first: int | None
    next: int
    landed: int
    #: Offsets of the present topic that are above `next`.
    lag: int


class LandedOffsetsReader(TopicReader[list[LandedOffsets]]):
    """Reads all tables by partition on each call, but for those of tracers; for many threads."""

    topics = (wire.LAKE,)

    def __init__(self, brokers: Brokers) -> None:
        super().__init__(brokers)
        self._lake = LakePositions()

    async def _read(self) -> list[LandedOffsets]:
        async with KafkaLogs(self._brokers) as logs:
            topic_ids = await logs.topic_ids()
            if wire.LAKE not in topic_ids:
                return []
            # The group's offsets and the positions are one transaction: those that are read later are newer.
            group = await logs.offsets_of_group(wire.LAKE_GROUP)
            await self._read_new(logs, topic_ids)
            positions, starts = self._lake.positions, self._lake.starts
            keys = [key for key in {*positions, *starts} if key.topic != _PROBES]
            spans = await logs.spans({key.topic for key in keys})
        found = []
        for key in sorted(keys):
            source, position = Source(key.topic, key.partition), positions.get(key, _BEGIN)
            first, upto = starts.get(key), position.next_offset
            committed, topic_id = group.get(source, (0, ""))
            if first is not None and topic_id == key.topic_id:
                upto = max(upto, first, committed)  # offsets without an event of the table
            is_present = topic_ids.get(key.topic) == key.topic_id and source in spans and first is not None
            lag = max(spans[source][1] - upto, 0) if is_present else 0
            found.append(LandedOffsets(key, first, upto, position.landed, lag))
        return found

    def _add(self, record: LogRecord) -> None:
        self._lake.add(record.key, record.value)

    def _forget(self) -> None:
        self._lake = LakePositions()
