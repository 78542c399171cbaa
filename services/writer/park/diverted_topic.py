"""Diverting: the events of a database that is out wait on `onramp.system_errors`.

Every diverted range is closed after all its records are acknowledged: by a marker, or, where it
has no events, together with all others of its batch that have none.  Records and markers of one
(database, source partition) share a key, hence a partition and its order; what is empty needs none.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec
import orjson
import pyarrow as pa

from services.writer.kafka.producer import Record, publish
from services.writer.model.offsets import Partition, Range
from services.writer.model.records import ARRIVALS, USUAL, PartitionSlice
from shared import wire
from shared.kafka_security import Brokers
from shared.unreadable import UNREADABLE

HEADER: Final = "onramp-waiting"
#: So many ranges make a record of some 80 kB when each is of another topic.
_MOST_RANGES: Final = 1000


@dataclass(frozen=True, slots=True)
class RangeMarker:
    """A range whose events for `database` wait: `count` distinct source offsets of it.

    `first` is the offset on `onramp.system_errors` at or before its first record, -1 when it
    has none; `digest` names the routes that it was sorted by.
    """

    database: str
    range: Range
    count: int
    first: int
    digest: str

    @property
    def key(self) -> bytes:
        """What its records have as their key."""
        return key_of(self.database, self.range.partition)

    def as_record(self) -> Record:
        """The record that closes the range."""
        head = {
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
        return Record(wire.SYSTEM_ERRORS, self.key, None, ((HEADER, orjson.dumps(head)),))


@dataclass(frozen=True, slots=True)
class EmptyRanges:
    """Ranges of which no event waits for `database`, sorted by the routes `digest`."""

    database: str
    digest: str
    ranges: tuple[Range, ...]

    @classmethod
    def of(cls, database: str, digest: str, ranges: Sequence[Range]) -> "Iterator[EmptyRanges]":
        """`ranges`, as many as a record may hold at a time."""
        for at in range(0, len(ranges), _MOST_RANGES):
            yield cls(database, digest, tuple(ranges[at : at + _MOST_RANGES]))

    def as_record(self) -> Record:
        """The record that closes them all."""
        topics: dict[tuple[str, str], list[tuple[int, int, int]]] = defaultdict(list)
        for r in self.ranges:
            topics[r.topic_id, r.partition.topic].append((r.partition.number, r.start, r.end))
        head = {
            "kind": "empty",
            "database": self.database,
            "digest": self.digest,
            "topics": [(*topic, spans) for topic, spans in topics.items()],
        }
        return Record(wire.SYSTEM_ERRORS, self.database.encode(), None, ((HEADER, orjson.dumps(head)),))


def closing_records(markers: Iterable[RangeMarker]) -> list[RangeMarker | EmptyRanges]:
    """What says the same as `markers` in fewer records: those without events together."""
    found: list[RangeMarker | EmptyRanges] = []
    empty: dict[tuple[str, str], list[Range]] = defaultdict(list)
    for m in markers:
        if m.count:
            found.append(m)
        else:
            empty[m.database, m.digest].append(m.range)
    return found + [
        e for (name, digest), ranges in empty.items() for e in EmptyRanges.of(name, digest, ranges)
    ]


def key_of(database: str, partition: Partition) -> bytes:
    """The key of everything that waits for `database` out of `partition`."""
    return f"{database}/{partition}".encode()


class EventHead(msgspec.Struct, tag_field="kind", tag="event", frozen=True, gc=False):
    """The header of an event that waits: for whom, where it came from, and when it was made."""

    database: str
    topic: str
    partition: int
    offset: int
    timestamp: datetime | None = None


class _MarkerHead(msgspec.Struct, tag_field="kind", tag="marker"):
    database: str
    count: int
    first: int
    digest: str
    topic_id: str
    partition: tuple[str, int]
    start: int
    end: int


class _EmptyHead(msgspec.Struct, tag_field="kind", tag="empty"):
    database: str
    digest: str
    topics: list[tuple[str, str, list[tuple[int, int, int]]]]


_decode: Final = msgspec.json.Decoder(EventHead | _MarkerHead | _EmptyHead).decode


def parse_header(headers: Mapping[str, bytes]) -> EventHead | RangeMarker | EmptyRanges | None:
    """What a record with these `headers` is; None: not Onramp's."""
    try:
        head = _decode(headers[HEADER])
    except UNREADABLE:
        return None
    if isinstance(head, EventHead):
        return head
    if isinstance(head, _EmptyHead):
        spans = ((of, topic, span) for of, topic, spans in head.topics for span in spans)
        ranges = (Range(of, Partition(topic, n), start, end) for of, topic, (n, start, end) in spans)
        return EmptyRanges(head.database, head.digest, tuple(ranges))
    source = Range(head.topic_id, Partition(*head.partition), head.start, head.end)
    return RangeMarker(head.database, source, head.count, head.first, head.digest)


def divert(
    brokers: Brokers, database: str, runs: Sequence[PartitionSlice]
) -> dict[Partition, tuple[int, int]]:
    """Put the records of `runs` on the topic and return when Kafka holds them all.

    Returns, by source partition, how many they are and the lowest offset they got.
    Raises `InfrastructureError`.
    """
    rows = [(run.partition, row) for run in runs for row in run.rows.to_pylist()]
    places = publish(brokers, [_as_record(database, partition, row) for partition, row in rows])
    found: dict[Partition, tuple[int, int]] = {}
    for (partition, _), place in zip(rows, places, strict=True):
        count, first = found.get(partition, (0, place.offset))
        found[partition] = (count + 1, min(first, place.offset))
    return found


def _as_record(database: str, partition: Partition, row: Mapping[str, Any]) -> Record:
    head = {
        "kind": "event",
        "database": database,
        "topic": partition.topic,
        "partition": partition.number,
        "offset": row["offset"],
        "timestamp": row["timestamp"],
    }
    headers = [(HEADER, orjson.dumps(head))]
    if row["received_at"] is not None:
        headers.append((wire.HEADER_RECEIVED_AT, row["received_at"]))
    return Record(wire.SYSTEM_ERRORS, key_of(database, partition), row["value"], tuple(headers))


def as_slice(
    partition: Partition, records: Mapping[int, tuple[EventHead, bytes | None, bytes | None]]
) -> PartitionSlice:
    """The events of a marker as they arrived: offset to (header, value, received_at)."""
    rows = [
        {
            "topic": partition.topic,
            "partition": partition.number,
            "offset": offset,
            "value": value,
            "received_at": received_at,
            "timestamp": head.timestamp,
            "context": USUAL,
        }
        for offset, (head, value, received_at) in sorted(records.items())
    ]
    return PartitionSlice(partition, pa.RecordBatch.from_pylist(rows, schema=ARRIVALS))
