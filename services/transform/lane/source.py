"""READ and FILTER of a lane: the next events of its partitions, at most one batch."""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from services.transform.lane.order import MAX_EVENTS, LaneOrder
from shared import envelope, wire
from shared.envelope import Envelope
from shared.errors import TRANSFORM_OTHER_TYPE, UserError
from shared.kafka_read import records
from shared.kafka_read.decompress import CorruptBatchError
from shared.kafka_read.fetch import NewRecords, OutOfRangeError, RangeUnreadableError
from shared.kafka_read.offsets import Partition
from shared.kafka_read.records import PartitionSlice
from shared.transform_replay import Replay


class SourceEvent(msgspec.Struct, gc=False):
    """An event for the function.  A struct: a named tuple takes twice the time."""

    envelope: Envelope
    received_at: bytes
    #: Its record: the slice and the row.
    part: PartitionSlice
    row: int
    value: bytes
    offset: int
    #: The attempt, if the event was parked before.
    replay: Replay | None = None

    @property
    def origin(self) -> tuple[Partition, int]:
        """Return the partition and the offset of the event on its source topic."""
        if self.replay is not None:
            return self.replay.source, self.replay.offset
        return self.part.partition, self.offset


class UnfitReplay(NamedTuple):
    """A replayed event that the function cannot get."""

    replay: Replay
    error: UserError
    part: PartitionSlice
    row: int
    offset: int


@dataclass(slots=True)
class Batch:
    """Consecutive records of each partition: events, other records by number, and the next positions."""

    events: list[SourceEvent] = field(default_factory=list)
    unfit: list[UnfitReplay] = field(default_factory=list)
    filtered: Counter[Partition] = field(default_factory=Counter)
    next: dict[Partition, int] = field(default_factory=dict)
    parts: list[PartitionSlice] = field(default_factory=list)

    @property
    def has_records(self) -> bool:
        """Return whether there is any record; positions also move past transaction markers."""
        return bool(self.events or self.unfit or self.filtered)

    def first(self, count: int) -> "Batch":
        """Return the batch as far as its first `count` events: the next run reads the others."""
        cuts: dict[Partition, int] = {}
        for event in self.events[count:]:
            cuts.setdefault(event.part.partition, event.offset)
        unfit = [each for each in self.unfit if each.offset < cuts.get(each.part.partition, each.offset + 1)]
        first = Batch(self.events[:count], unfit, Counter(self.filtered), self.next | cuts)
        events = Counter(event.part.partition for event in first.events)
        events.update(each.part.partition for each in unfit)
        for partition, cut in cuts.items():
            before = sum(
                pc.sum(pc.less(part.rows.column("offset"), cut)).as_py() or 0
                for part in self.parts
                if part.partition == partition
            )
            first.filtered[partition] = before - events[partition]
        return first


class Poller(Protocol):
    """The part of `Fetcher` that a source uses."""

    async def poll(self, positions: Mapping[Partition, int]) -> NewRecords:
        """Return committed records from `positions` on (`Fetcher.poll`)."""


class Source:
    """Reads the partitions of a lane from positions on."""

    def __init__(self, order: LaneOrder, fetcher: Poller, positions: Mapping[Partition, int]) -> None:
        self._order = order
        self._fetcher = fetcher
        #: Start of the next poll.
        self._fetched = dict(positions)
        self._pending: deque[PartitionSlice] = deque()
        self.positions = dict(positions)
        #: Why partitions cannot be read: the others continue without them.
        self.unreadable: dict[Partition, str] = {}
        self._error: Exception | None = None

    async def next(self) -> Batch:
        """Return the next records; none after half a second without new ones.  Raise as `Fetcher.poll`.

        A partition that cannot be read is left out for the rest of the run, unless there is no other one.
        """
        if not self._pending:
            new = await self._poll({p: at for p, at in self._fetched.items() if p not in self.unreadable})
            if self._error is not None and len(self.unreadable) == len(self._fetched):
                raise self._error
            self._fetched = self._fetched | new.positions
            self._pending.extend(new.slices)
        batch = self._take()
        self.positions |= batch.next
        return batch

    async def _poll(self, positions: Mapping[Partition, int]) -> NewRecords:
        """Poll; after an error of a partition in halves, until the partition is found."""
        try:
            return await self._fetcher.poll(positions)
        except OutOfRangeError:
            raise
        except (CorruptBatchError, RangeUnreadableError) as e:
            if len(positions) == 1:
                self._error = e
                self.unreadable |= dict.fromkeys(positions, f"{type(e).__name__}: {e}")
                return NewRecords([], {})
            slices, found = list[PartitionSlice](), dict[Partition, int]()
            for half in _halves(positions):
                new = await self._poll(half)
                slices += new.slices
                found |= new.positions
            return NewRecords(slices, found)

    def _take(self) -> Batch:
        """Return up to `MAX_EVENTS` fetched records."""
        batch, room = Batch(), MAX_EVENTS
        while self._pending and room:
            part = self._pending.popleft()
            if len(part) > room:
                rest = PartitionSlice(part.partition, part.rows.slice(room))
                part = PartitionSlice(part.partition, part.rows.slice(0, room))
                self._pending.appendleft(rest)
                batch.next[part.partition] = rest.first
            room -= len(part)
            self._add(batch, part)
        left = {part.partition for part in self._pending}
        batch.next |= {p: at for p, at in self._fetched.items() if p not in left and at != self.positions[p]}
        return batch

    def _add(self, batch: Batch, part: PartitionSlice) -> None:
        batch.parts.append(part)
        if part.partition.topic == wire.TRANSFORM_REPLAYS:
            self._add_replays(batch, part)
            return
        wanted = part.wanted()
        times = wanted.rows.column("received_at").to_pylist()
        values, offsets = wanted.rows.column("value").to_pylist(), wanted.rows.column("offset").to_pylist()
        events = 0
        for row, (value, offset, received_at) in enumerate(zip(values, offsets, times, strict=True)):
            if (event := event_of_type(value, self._order.source_type)) is not None:
                at = received_at or _time_of(wanted, row)
                batch.events.append(SourceEvent(event, at, wanted, row, value, offset))
                events += 1
        if events < len(part):
            batch.filtered[part.partition] += len(part) - events

    def _add_replays(self, batch: Batch, part: PartitionSlice) -> None:
        """Add the replays of this transform; those of others are filtered."""
        columns = ("context", "received_at", "value", "offset")
        for row, (context, received_at, value, offset) in enumerate(
            zip(*(part.rows.column(name).to_pylist() for name in columns), strict=True)
        ):
            replay = Replay.of_context(context, self._order.name)
            if replay is None:
                batch.filtered[part.partition] += 1
                continue
            try:
                event = _replayed_event(value, self._order.source_type)
            except UserError as e:
                batch.unfit.append(UnfitReplay(replay, e, part, row, offset))
            else:
                at = received_at or _time_of(part, row)
                batch.events.append(SourceEvent(event, at, part, row, value, offset, replay))


def _halves(positions: Mapping[Partition, int]) -> tuple[dict[Partition, int], dict[Partition, int]]:
    every = list(positions.items())
    return dict(every[: len(every) // 2]), dict(every[len(every) // 2 :])


def event_of_type(value: bytes | None, event_name: str) -> Envelope | None:
    """Return the event in a record; None for another type's, and for a record that the writer parks or lands.

    Packets and records that are no envelope are not events of the type.
    """
    try:
        parsed = envelope.parse(value or b"")
    except UserError:
        return None
    return parsed if parsed.event_name == event_name else None


def _replayed_event(value: bytes | None, event_name: str) -> Envelope:
    """Return the event.  Raise `UserError` if a fix has spoilt it, or if the transform reads another type."""
    parsed = envelope.parse(value or b"")
    if parsed.event_name != event_name:
        raise UserError(TRANSFORM_OTHER_TYPE, f"the transform reads {event_name}, not {parsed.event_name}")
    return parsed


def _time_of(part: PartitionSlice, row: int) -> bytes:
    """Return the Kafka record's time in the format of the gateway's header."""
    (time_of,) = records.received_at(part.rows.slice(row, 1)).cast(pa.string()).to_pylist()
    return str(time_of).replace(" ", "T").encode()
