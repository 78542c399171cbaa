"""Diverts the events of an unreachable database to `onramp.system_errors`, and parses its records.

Invariant: a diverted range is closed only after all its records are acknowledged.  A range with events is
closed by a marker of its own, and the ranges of a batch without events are closed together.  Records and
markers of one (database, source partition) share a key, so a partition and its order; empty ranges need none.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import Any, Final

import msgspec
import orjson
import pyarrow as pa

from services.writer.kafka.producer import Record, publish
from shared import wire
from shared.kafka_read.offsets import Partition, Range
from shared.kafka_read.records import ARRIVALS, USUAL, PartitionSlice
from shared.kafka_security import Brokers
from shared.parse_errors import UNREADABLE

HEADER: Final = "onramp-waiting"
#: Maximum ranges of one record: about 80 kB when each is of another topic.
_MAX_RANGES: Final = 1000


@dataclass(frozen=True, slots=True)
class RangeMarker:
    """A diverted range: `count` distinct source offsets of it wait for `database`.

    `first` is the offset on `onramp.system_errors` at or before its first record, or -1 without
    records; `digest` identifies the routes by which the range was sorted.
    """

    database: str
    range: Range
    _: KW_ONLY
    count: int
    first: int
    digest: str

    @property
    def key(self) -> bytes:
        """Return the key of the range's records."""
        return key_of(self.database, self.range.partition)

    def as_record(self) -> Record:
        """Return the record that closes the range."""
        header = {
            "kind": "marker",
            "database": self.database,
            "count": self.count,
            "first": self.first,
            "digest": self.digest,
            "topic_id": self.range.topic_id,
            "partition": [*self.range.partition],
            "start": self.range.start,
            "end": self.range.end,
        }
        return Record(wire.SYSTEM_ERRORS, self.key, None, ((HEADER, orjson.dumps(header)),))


@dataclass(frozen=True, slots=True)
class EmptyRanges:
    """Diverted ranges without events for `database`, sorted by the routes `digest`."""

    database: str
    digest: str
    ranges: tuple[Range, ...]

    @classmethod
    def of(cls, database: str, digest: str, ranges: Sequence[Range]) -> "Iterator[EmptyRanges]":
        """Yield `ranges` in groups that fit into a record (`_MAX_RANGES`)."""
        for first in range(0, len(ranges), _MAX_RANGES):
            yield cls(database, digest, tuple(ranges[first : first + _MAX_RANGES]))

    def as_record(self) -> Record:
        """Return the record that closes all the ranges."""
        topics: dict[tuple[str, str], list[tuple[int, int, int]]] = defaultdict(list)
        for r in self.ranges:
            topics[r.topic_id, r.partition.topic].append((r.partition.number, r.start, r.end))
        header = {
            "kind": "empty",
            "database": self.database,
            "digest": self.digest,
            "topics": [(*topic, spans) for topic, spans in topics.items()],
        }
        return Record(wire.SYSTEM_ERRORS, self.database.encode(), None, ((HEADER, orjson.dumps(header)),))


def closing_records(markers: Iterable[RangeMarker]) -> list[RangeMarker | EmptyRanges]:
    """Return `markers` with those that have no events combined."""
    closing: list[RangeMarker | EmptyRanges] = []
    empty: dict[tuple[str, str], list[Range]] = defaultdict(list)
    for m in markers:
        if m.count:
            closing.append(m)
        else:
            empty[m.database, m.digest].append(m.range)
    return closing + [
        e for (name, digest), ranges in empty.items() for e in EmptyRanges.of(name, digest, ranges)
    ]


def key_of(database: str, partition: Partition) -> bytes:
    """Return the key of all diverted records of `partition` for `database`."""
    return f"{database}/{partition}".encode()


class EventHeader(msgspec.Struct, tag_field="kind", tag="event", frozen=True, gc=False):
    """The header of a diverted event: its database, its source, and its record's timestamp."""

    database: str
    topic: str
    partition: int
    offset: int
    timestamp: datetime | None = None


class _MarkerHeader(msgspec.Struct, tag_field="kind", tag="marker"):
    database: str
    count: int
    first: int
    digest: str
    topic_id: str
    partition: tuple[str, int]
    start: int
    end: int


class _EmptyHeader(msgspec.Struct, tag_field="kind", tag="empty"):
    database: str
    digest: str
    topics: list[tuple[str, str, list[tuple[int, int, int]]]]


_decode: Final = msgspec.json.Decoder(EventHeader | _MarkerHeader | _EmptyHeader).decode


def parse_header(headers: Mapping[str, bytes]) -> EventHeader | RangeMarker | EmptyRanges | None:
    """Return the parsed header of a record of the topic; None when Onramp has not written the record."""
    try:
        header = _decode(headers[HEADER])
    except UNREADABLE:
        return None
    if isinstance(header, EventHeader):
        return header
    if isinstance(header, _EmptyHeader):
        spans = ((of, topic, span) for of, topic, spans in header.topics for span in spans)
        ranges = (Range(of, Partition(topic, n), start, end) for of, topic, (n, start, end) in spans)
        return EmptyRanges(header.database, header.digest, tuple(ranges))
    source = Range(header.topic_id, Partition(*header.partition), header.start, header.end)
    return RangeMarker(header.database, source, count=header.count, first=header.first, digest=header.digest)


def divert(
    brokers: Brokers, database: str, slices: Sequence[PartitionSlice]
) -> dict[Partition, tuple[int, int]]:
    """Put the records of `slices` on the topic and wait for Kafka's acknowledgement of all.

    Returns, by source partition, their number and their lowest offset on the topic.  Raises
    `InfrastructureError`; then some may be on the topic, and are ignored without their marker.
    """
    rows = [(each.partition, row) for each in slices for row in each.rows.to_pylist()]
    acknowledged = publish(brokers, [_as_record(database, partition, row) for partition, row in rows])
    totals: dict[Partition, tuple[int, int]] = {}
    for (partition, _), metadata in zip(rows, acknowledged, strict=True):
        count, first = totals.get(partition, (0, metadata.offset))
        totals[partition] = (count + 1, min(first, metadata.offset))
    return totals


def _as_record(database: str, partition: Partition, row: Mapping[str, Any]) -> Record:
    header = {
        "kind": "event",
        "database": database,
        "topic": partition.topic,
        "partition": partition.number,
        "offset": row["offset"],
        "timestamp": row["timestamp"],
    }
    headers = [(HEADER, orjson.dumps(header))]
    if row["received_at"] is not None:
        headers.append((wire.HEADER_RECEIVED_AT, row["received_at"]))
    return Record(wire.SYSTEM_ERRORS, key_of(database, partition), row["value"], tuple(headers))


def as_slice(
    partition: Partition, records: Mapping[int, tuple[EventHeader, bytes | None, bytes | None]]
) -> PartitionSlice:
    """Return a marker's events as the slice that a task would have read from Kafka.

    `records`: source offset to (header, value, received_at).
    """
    rows = [
        {
            "topic": partition.topic,
            "partition": partition.number,
            "offset": offset,
            "value": value,
            "received_at": received_at,
            "timestamp": header.timestamp,
            "context": USUAL,
        }
        for offset, (header, value, received_at) in sorted(records.items())
    ]
    return PartitionSlice(partition, pa.RecordBatch.from_pylist(rows, schema=ARRIVALS))
