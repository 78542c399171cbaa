"""Reads from `onramp.lake` how far each table of the lake is: the topic once, then its new records alone.

The positions are those that the lake service has recorded after its commits, so no storage is opened.
"""

import asyncio
import threading
from typing import Final, NamedTuple

from services.ops.findings import Source
from services.ops.kafka_logs import KafkaLogs, LogRecord
from shared import wire
from shared.kafka_security import Brokers
from shared.lake.lake_topic import PositionKey, parse_position, parse_start
from shared.lake.transactions import TablePosition
from shared.parse_errors import UNREADABLE

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


class LandedOffsetsReader:
    """Reads the offsets on each call; for many threads."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._lock = threading.Lock()
        self._topic_id: str | None = None
        self._next: dict[Source, int] = {}
        self._positions: dict[PositionKey, TablePosition] = {}
        self._starts: dict[PositionKey, int] = {}

    def read(self) -> list[LandedOffsets]:
        """Return all tables by partition; those of tracers are excluded.  Raise `InfrastructureError`."""
        with self._lock:
            return asyncio.run(self._read())

    async def _read(self) -> list[LandedOffsets]:
        async with KafkaLogs(self._brokers) as logs:
            topic_ids = await logs.topic_ids()
            if wire.LAKE not in topic_ids:
                return []
            # The group's offsets and the positions are one transaction: those that are read later are newer.
            group = await logs.offsets_of_group(wire.LAKE_GROUP)
            await self._refresh(logs, topic_ids[wire.LAKE])
            keys = [key for key in {*self._positions, *self._starts} if key.topic != _PROBES]
            spans = await logs.spans({key.topic for key in keys})
        found = []
        for key in sorted(keys):
            source, position = Source(key.topic, key.partition), self._positions.get(key, _BEGIN)
            first, upto = self._starts.get(key), position.next_offset
            committed, topic_id = group.get(source, (0, ""))
            if first is not None and topic_id == key.topic_id:
                upto = max(upto, first, committed)  # offsets without an event of the table
            is_present = topic_ids.get(key.topic) == key.topic_id and source in spans and first is not None
            lag = max(spans[source][1] - upto, 0) if is_present else 0
            found.append(LandedOffsets(key, first, upto, position.landed, lag))
        return found

    async def _refresh(self, logs: KafkaLogs, topic_id: str) -> None:
        if topic_id != self._topic_id:
            self._topic_id = topic_id
            for known in (self._next, self._positions, self._starts):
                known.clear()
        spans = await logs.spans([wire.LAKE])
        new = {source: (max(first, self._next.get(source, 0)), end) for source, (first, end) in spans.items()}
        async for record in logs.read(new):
            self._add(record)
        self._next |= {source: end for source, (_, end) in spans.items()}

    def _add(self, record: LogRecord) -> None:
        try:
            if (start := parse_start(record.key or b"", record.value)) is not None:
                key, offset = start
                self._starts.pop(key, None)
                if offset is not None:
                    self._starts[key] = offset
            elif record.value is not None and (position := parse_position(record.key or b"", record.value)):
                self._positions[position[0]] = position[1]
        except UNREADABLE:
            return  # a foreign record, which the service ignores too
