"""Fetches ranges from the partitions' leaders: hundreds of partitions in one request per broker.

A consumer of Kafka's clients has a buffer and a position for each partition, and creates an object for each
record.  A reader that knows the ranges in advance needs neither: it requests from each leader the ranges
that it leads until all are read.  aiokafka's client provides connections, security and the leaders.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError, for_code
from aiokafka.protocol.fetch import FetchRequest

from shared.errors import KAFKA_UNAVAILABLE, InfrastructureError
from shared.kafka_read.decompress import MAX_BYTES
from shared.kafka_read.leaders import ASK_ANOTHER_TIME, leader_of
from shared.kafka_read.local_log import local_starts
from shared.kafka_read.log_batches import Fetched, committed
from shared.kafka_read.offsets import Partition, Range
from shared.kafka_read.record_columns import columns
from shared.kafka_read.records import ARRIVALS, PartitionSlice
from shared.kafka_security import Brokers

#: Maximum bytes of one response, and of all data that this reader holds at once: some thousand records, whose
#: columns fit the processor's cache.  A larger single batch is returned whole.
_FETCH_BYTES: Final = 4 << 20
_MIN_PARTITION_BYTES: Final = 64 << 10
_READ_COMMITTED: Final = 1
#: A planned range exists: maximum wait of a leader for data from a remote store.
_WAIT_MS: Final = 500
_REQUEST_MS: Final = 8_000
_AGAIN_SECONDS: Final = 0.05
_OFFSET_OUT_OF_RANGE: Final = 1
#: Maximum wait of each leader for new records, if there are several: an idle one delays the others.
_WAIT_AMONG_LEADERS_MS: Final = 25
#: Above each offset.
_NO_END: Final = 1 << 62
#: Number of fields after the committed end in version 4 of the response: aborted transactions and records.
_FIELDS_OF_4: Final = 2


class RangeUnreadableError(Exception):
    """Kafka permanently refuses to return the records of a partition."""


class OutOfRangeError(RangeUnreadableError):
    """Kafka has no record at an offset: the log begins behind it, or ends before it."""

    def __init__(self, partition: Partition, offset: int) -> None:
        super().__init__(f"{partition}: Kafka has no offset {offset}: events may have been lost")
        self.partition = partition
        self.offset = offset


class NewRecords(NamedTuple):
    """The result of one long poll."""

    slices: list[PartitionSlice]
    #: Start of the next poll, of each partition; it passes markers and aborted records.
    positions: dict[Partition, int]


class _Part(NamedTuple):
    """A leader's response for one partition."""

    error: int
    #: End of the records that no running transaction withholds.
    committed_end: int
    aborted: Sequence[tuple[int, int]]
    data: bytes
    #: Whether the whole response is empty, so that its size limit did not exclude this partition, and the
    #: leader has all of the partition's data on its own disk.
    nothing_came: bool


@dataclass(slots=True, eq=False)
class _Reading:
    """A range that is being read."""

    range: Range
    next_offset: int
    #: Average bytes per offset so far.
    offset_bytes: float = 0.0
    is_done: bool = False

    @property
    def max_bytes(self) -> int:
        """Approximate bytes left in the range, so that Kafka does not send more than requested."""
        if not self.offset_bytes:
            return _FETCH_BYTES // 4
        left = (self.range.end - self.next_offset) * self.offset_bytes * 1.1
        return int(min(max(left, _MIN_PARTITION_BYTES), _FETCH_BYTES))

    def advance(self, fetched: Fetched, part: _Part) -> bool:
        """Record the progress of the range; return whether there was any.

        Compaction may have removed all records up to the range's end.  Then the leader returns no data for
        any requested partition, has no remote store to read, and the committed end is past the range's end.
        """
        further = fetched.next_offset - self.next_offset
        if further:
            self.offset_bytes = len(part.data) / further
        self.next_offset = fetched.next_offset
        is_hole = part.nothing_came and part.committed_end >= self.range.end
        self.is_done = is_hole or self.next_offset >= self.range.end
        return further > 0 or self.is_done


class Fetcher:
    """Reads ranges through connections to the brokers that lead them."""

    def __init__(self, brokers: Brokers, patience_seconds: float = 20.0) -> None:
        """`patience_seconds`: maximum seconds without progress before `read` fails."""
        self._client = AIOKafkaClient(**brokers.aiokafka(), request_timeout_ms=_REQUEST_MS)
        self._patience_s = patience_seconds
        self._topics: set[str] = set()
        self._polls = 0

    async def start(self) -> Self:
        """Connect.  Raise `InfrastructureError`."""
        try:
            await self._client.bootstrap()
        except KafkaError as e:
            raise InfrastructureError(KAFKA_UNAVAILABLE, f"{type(e).__name__} on connecting") from e
        return self

    async def stop(self) -> None:
        """Disconnect."""
        await self._client.close()

    @property
    def client(self) -> AIOKafkaClient:
        """Return the client, for other requests between two reads."""
        return self._client

    async def poll(self, positions: Mapping[Partition, int]) -> NewRecords:
        """Return committed records from `positions` on, at most 4 MB; wait up to 0.5 s for the first.

        Raise `OutOfRangeError` and `RangeUnreadableError`; and `InfrastructureError` for each other error
        of a leader, at once: it may mean that the topic was recreated.
        """
        await self.know({p.topic for p in positions})
        turn = self._polls = (self._polls + 1) % len(positions)
        partitions = [*positions]
        readings = [_Reading(Range("", p, positions[p], _NO_END), positions[p]) for p in partitions]
        by_node = self._by_leader(readings[turn:] + readings[:turn])  # no partition is always the first
        wait_ms = _WAIT_MS if len(by_node) == 1 else _WAIT_AMONG_LEADERS_MS
        sent = [
            self._client.send(node, _request(each, len(by_node), wait_ms)) for node, each in by_node.items()
        ]
        try:
            answers = await asyncio.gather(*sent)
        except KafkaError as e:
            raise InfrastructureError(KAFKA_UNAVAILABLE, f"{type(e).__name__} on reading") from e
        parts = {
            Partition(topic, part[0]): _part(part, nothing_came=False)
            for answer in answers
            for topic, numbers in answer.topics
            for part in numbers
        }
        for p in partitions:
            if p not in parts or parts[p].error in ASK_ANOTHER_TIME:
                self._client.force_metadata_update()
                raise InfrastructureError(KAFKA_UNAVAILABLE, f"{p} cannot be read for now")
        fetched = list(self._fetched(readings, parts))
        next_offsets = {r.range.partition: each.next_offset for r, each in fetched}
        return NewRecords(_slices([(r.range, each) for r, each in fetched]), {**positions, **next_offsets})

    async def read(self, ranges: Iterable[Range]) -> AsyncGenerator[list[PartitionSlice]]:
        """Yield all committed records of `ranges`, each partition's in order, some thousand at a time.

        Raise `InfrastructureError` if Kafka or a leader is unreachable for too long, `RangeUnreadableError`
        if a leader refuses a partition's records, and `CorruptBatchError`.
        """
        left = [_Reading(r, r.start) for r in ranges if len(r)]
        await self.know({each.range.partition.topic for each in left})
        progress_at = time.monotonic()
        while left:
            slices, left, progressed = await self._round(left)
            if slices:
                yield slices
            if progressed:
                progress_at = time.monotonic()
            elif time.monotonic() - progress_at > self._patience_s:
                raise InfrastructureError(KAFKA_UNAVAILABLE, f"{left[0].range} cannot be read for now")
            else:
                await asyncio.sleep(_AGAIN_SECONDS)

    async def know(self, topics: set[str]) -> None:
        """Fetch the leaders of the partitions of `topics`, in addition to earlier topics."""
        if topics <= self._topics:
            return
        self._topics |= topics
        try:
            await self._client.set_topics(sorted(self._topics))
        except KafkaError as e:
            raise InfrastructureError(KAFKA_UNAVAILABLE, f"{type(e).__name__} for the topics' leaders") from e

    async def _round(self, left: Sequence[_Reading]) -> tuple[list[PartitionSlice], list[_Reading], bool]:
        """Send one request to each leader; return the slices, the unfinished ranges, and if any progressed.

        A range without data comes first in the next request, because the first always gets a whole batch.
        """
        by_node = self._by_leader(left)
        sent = [self._ask(node, readings, len(by_node)) for node, readings in by_node.items()]
        parts = {p: part for answer in await asyncio.gather(*sent) for p, part in answer.items()}
        fetched = list(self._fetched(left, parts))
        slices = _slices([(r.range, f) for r, f in fetched])
        progressed = {r for r, f in fetched if r.advance(f, parts[r.range.partition])}
        # The sort is stable: False, for ranges without data, is before True.
        unfinished = sorted((r for r in left if not r.is_done), key=progressed.__contains__)
        return slices, unfinished, bool(progressed)

    def _by_leader(self, left: Sequence[_Reading]) -> dict[int, list[_Reading]]:
        by_node: dict[int, list[_Reading]] = defaultdict(list)
        for each in left:
            if (node := leader_of(self._client, each.range.partition)) is not None:
                by_node[node].append(each)
        return by_node

    async def _ask(self, node: int, readings: Sequence[_Reading], nodes: int) -> dict[Partition, _Part]:
        """Return the response of `node` by partition, which may be empty for now."""
        request = _request(readings, nodes, _WAIT_MS)
        offsets = {each.range.partition: each.next_offset for each in readings}
        try:
            answer = await self._client.send(node, request)
            came = any(part[-1] for _, parts in answer.topics for part in parts)
            starts = {} if came else await local_starts(self._client, node, offsets)
        except KafkaError:
            self._client.force_metadata_update()
            return {}
        local = {p for p, start in starts.items() if start <= offsets[p]}
        return {
            (p := Partition(topic, part[0])): _part(part, nothing_came=p in local)
            for topic, parts in answer.topics
            for part in parts
        }

    def _fetched(
        self, left: Sequence[_Reading], parts: Mapping[Partition, _Part]
    ) -> Iterator[tuple[_Reading, Fetched]]:
        """Yield the fetched batches of ranges within the memory bound; the rest is fetched again."""
        room = MAX_BYTES
        for each in left:
            if room > 0 and (fetched := self._fetched_of(each, parts, room)) is not None:
                room -= sum(batch.weight for batch in fetched.batches)
                yield each, fetched

    def _fetched_of(self, reading: _Reading, parts: Mapping[Partition, _Part], room: int) -> Fetched | None:
        """Return the fetched batches of a range, or None if none for now.  Raise `RangeUnreadableError`."""
        part = parts.get(reading.range.partition)
        if part is None:
            return None
        if part.error in ASK_ANOTHER_TIME:
            self._client.force_metadata_update()
            return None
        if part.error == _OFFSET_OUT_OF_RANGE:
            raise OutOfRangeError(reading.range.partition, reading.next_offset)
        if part.error:
            raise RangeUnreadableError(f"{reading.range} cannot be read: {for_code(part.error).__name__}")
        return committed(part.data, reading.next_offset, part.aborted, room)


def _request(readings: Sequence[_Reading], nodes: int, wait_ms: int) -> FetchRequest:
    """Return the request to one of `nodes` leaders."""
    topics: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for each in readings:
        p = each.range.partition
        topics[p.topic].append((p.number, each.next_offset, each.max_bytes))
    return FetchRequest(wait_ms, 1, _FETCH_BYTES // nodes, _READ_COMMITTED, list(topics.items()))


def _part(part: Sequence[Any], *, nothing_came: bool) -> _Part:
    """Return the fields that every version of the response has; version 5 added the log's start."""
    _, error, _, committed_end, *rest = part
    aborted = rest[0] if len(rest) == _FIELDS_OF_4 else rest[1]
    return _Part(error, committed_end, aborted or (), rest[-1] or b"", nothing_came)


def _slices(fetched: Sequence[tuple[Range, Fetched]]) -> list[PartitionSlice]:
    """Return the records that are within their ranges, by partition."""
    batches = [batch for _, each in fetched for batch in each.batches]
    if not batches:
        return []
    counts = [len(each.batches) for _, each in fetched]
    first = np.repeat(np.array([r.start for r, _ in fetched], np.int64), counts)
    end = np.repeat(np.array([r.end for r, _ in fetched], np.int64), counts)
    rows, rows_of_batch = columns(batches, first, end)
    slices, at, batch = [], 0, 0
    for (r, _), count in zip(fetched, counts, strict=True):
        size = int(rows_of_batch[batch : batch + count].sum())
        if size:
            slices.append(PartitionSlice(r.partition, _placed(r.partition, rows.slice(at, size))))
        at, batch = at + size, batch + count
    return slices


def _placed(partition: Partition, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return `rows` with the columns of their topic and partition."""
    place: Mapping[str, pa.Array] = {
        "topic": pa.repeat(partition.topic, len(rows)),
        "partition": pa.repeat(pa.scalar(partition.number, pa.int32()), len(rows)),
    }
    return pa.RecordBatch.from_arrays(
        [place[name] if name in place else rows.column(name) for name in ARRIVALS.names], schema=ARRIVALS
    )
