"""The totals of one source partition: outcomes since its first position, in the transaction of its offset.

They are the metadata of the group's offset, so that a run continues the counts with the request that reads
its position, and a record of the compacted `onramp.transformed`, for readers.
"""

from dataclasses import asdict, dataclass, replace
from typing import Self

import msgspec
import orjson

from shared.kafka_read.offsets import Partition
from shared.parse_errors import UNREADABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Outcomes of the records of one topic generation from offset `first` on."""

    topic_id: str
    first: int
    #: Records that are no event of the source type for Onramp.
    filtered: int = 0
    dropped: int = 0
    parked: int = 0
    #: Events with outputs, and their outputs.
    emitted: int = 0
    outputs: int = 0
    #: Parked events during which the function's process ended.
    deaths: int = 0
    #: Offsets that an operator accepted as lost.
    skipped: int = 0

    def plus(self, **counts: int) -> Self:
        """Return the totals with `counts` added."""
        return replace(self, **{name: getattr(self, name) + count for name, count in counts.items()})

    def metadata(self) -> str:
        """Return the metadata of the group's offset."""
        return orjson.dumps(asdict(self)).decode()

    @classmethod
    def of_metadata(cls, metadata: str) -> Self | None:
        """Return the totals in the metadata; None if another client committed the offset."""
        try:
            return msgspec.convert(orjson.loads(metadata), cls)
        except UNREADABLE:
            return None


@dataclass(frozen=True, slots=True)
class Position:
    """The next offset of a partition, and the totals up to it."""

    next: int
    totals: Totals


def key_of(transform: str, partition: Partition, topic_id: str) -> bytes:
    """Return the key of the totals' record: totals of each topic generation are retained."""
    return f"{transform}/{partition.topic}/{partition.number}/{topic_id}".encode()


def as_record(transform: str, partition: Partition, position: Position) -> tuple[bytes, bytes]:
    """Return key and value of the record of `onramp.transformed`."""
    totals = position.totals
    value = {
        "transform": transform,
        "topic": partition.topic,
        "partition": partition.number,
        "next": position.next,
        **asdict(totals),
    }
    return key_of(transform, partition, totals.topic_id), orjson.dumps(value)


class _Place(msgspec.Struct):
    """The fields of a record that are not of the totals."""

    transform: str
    topic: str
    partition: int
    next: int


@dataclass(frozen=True, slots=True)
class TotalsRecord:
    """A record of `onramp.transformed`."""

    transform: str
    partition: Partition
    position: Position

    @classmethod
    def parse(cls, value: bytes | None) -> Self | None:
        """Return the record's content; None for a record of another client."""
        try:
            document = orjson.loads(value or b"")
            place, totals = msgspec.convert(document, _Place), msgspec.convert(document, Totals)
        except UNREADABLE:
            return None
        return cls(place.transform, Partition(place.topic, place.partition), Position(place.next, totals))
