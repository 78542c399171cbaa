"""Reads the newest records of a topic, from the end backwards, within limits of time and traffic."""

import asyncio
import heapq
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from services.ops.findings import Source
from services.ops.kafka_logs import KafkaLogs, LogRecord
from shared.kafka_security import Brokers

#: Maximum bytes of records that one request holds: a thousand large events would be a gigabyte.
_MAX_BYTES: Final = 32 << 20
#: Maximum bytes that one request reads, and its maximum seconds.
MAX_TRAFFIC: Final = 64 << 20
MAX_SECONDS: Final = 3.0
#: Records of the first step backwards, of all partitions together; each step is larger by a factor.
_FIRST_STEP: Final = 32
_FACTOR: Final = 4


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest records by time, the oldest first.  Not `is_whole`: a limit left older ones out."""

    records: list[LogRecord]
    is_whole: bool


class NewestRecords:
    """The newest of the records that were added: at most `last`, and `max_bytes` of keys and values."""

    def __init__(self, last: int, max_bytes: int = _MAX_BYTES) -> None:
        self._last = last
        self._max_bytes = max_bytes
        self._bytes = 0
        self._heap: list[tuple[tuple[int, object, int], LogRecord]] = []
        #: Whether records were removed for their bytes.
        self.is_cut = False

    def add(self, record: LogRecord) -> None:
        """Add a record, and remove the oldest ones above the limits; the newest remains at any size."""
        heapq.heappush(self._heap, (_age(record), record))
        self._bytes += size_of(record)
        while len(self._heap) > self._last or (self._bytes > self._max_bytes and len(self._heap) > 1):
            self.is_cut |= len(self._heap) <= self._last
            _, oldest = heapq.heappop(self._heap)
            self._bytes -= size_of(oldest)

    def admits(self, timestamp: int) -> bool:
        """Return whether a record of this time would remain."""
        is_full = self.is_cut or len(self._heap) >= self._last
        return not is_full or timestamp >= self._heap[0][1].timestamp

    def by_time(self) -> list[LogRecord]:
        """Return the records, the oldest first."""
        return [record for _, record in sorted(self._heap)]


async def newest(brokers: Brokers, topic: str, last: int) -> Newest | None:
    """Return at most the `last` newest records of all partitions; None without such a topic.

    Reads at most `MAX_TRAFFIC` bytes in `MAX_SECONDS`, and returns at most 32 MiB.
    Raises `InfrastructureError`.
    """
    async with KafkaLogs(brokers) as logs:
        named = (await logs.named_topics(topic)).get(topic)
        if named is None:
            return None
        led = {Source(topic, number): broker for number, broker in named.leaders.items() if broker >= 0}
        spans = {
            source: (max(end - last, first), end)
            for source, (first, end) in (await logs.positions(led)).items()
        }
        records = NewestRecords(last)
        try:
            async with asyncio.timeout(MAX_SECONDS):
                is_whole = await _read_back(logs, spans, records)
        except TimeoutError:
            is_whole = False
    return Newest(records.by_time(), is_whole and not records.is_cut)


async def _read_back(
    logs: KafkaLogs, spans: Mapping[Source, tuple[int, int]], records: NewestRecords
) -> bool:
    """Add the newest records of `spans`, and return False if a limit left some out.

    A partition is read back until its records are older than the others' newest ones.
    """
    tops = {source: end for source, (_, end) in spans.items()}
    oldest: dict[Source, int] = {}
    step, traffic = max(_FIRST_STEP // max(len(spans), 1), 1), 0
    while parts := {
        source: (max(spans[source][0], top - step), top)
        for source, top in tops.items()
        if top > spans[source][0] and (source not in oldest or records.admits(oldest[source]))
    }:
        async with aclosing(logs.read(parts)) as read:
            async for record in read:
                records.add(record)
                oldest[record.source] = min(oldest.get(record.source, record.timestamp), record.timestamp)
                traffic += size_of(record)
                if traffic > MAX_TRAFFIC:
                    return False
        tops |= {source: first for source, (first, _) in parts.items()}
        step *= _FACTOR
    return True


def _age(record: LogRecord) -> tuple[int, object, int]:
    return record.timestamp, record.source, record.offset


def size_of(record: LogRecord) -> int:
    """Return the bytes of a record's key and value."""
    return len(record.key or b"") + len(record.value or b"")
