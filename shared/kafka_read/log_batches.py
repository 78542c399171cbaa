"""Extracts the payloads of the committed record batches from Kafka's response to a fetch.

Kafka stores a partition as record batches (KIP-98, message format 2) and sends them unchanged from its
disk: whole batches, compressed by their producer, with transaction markers between them, and the last
batch truncated at the size limit.  This module reads and checks each batch's header; `record_columns`
reads the records.
"""

import struct
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from aiokafka.record.util import calc_crc32c

from shared.kafka_read.decompress import MAX_BYTES, CorruptBatchError, decompressed

#: Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, first and largest
#: timestamp, producer's id and epoch, base sequence, count of records.
_HEAD: Final = struct.Struct(">qiibIhiqqqhii")
_LENGTH_ENDS_AT: Final = 12
_CRC_COVERS_FROM: Final = 21
_MIN_BYTES: Final = 17
_MAGIC_AT: Final = 16
_MAGIC: Final = 2

_CODEC: Final = 0b111
_LOG_APPEND_TIME: Final = 0b1000
_TRANSACTIONAL: Final = 0b1_0000
_CONTROL: Final = 0b10_0000
#: A control record's key is a version and a type, 16 bits each.  The key follows the record's length,
#: attributes, timestamp, offset and key length, a byte each.
_MARKER: Final = struct.Struct(">5xhh")
_ABORT: Final = 0

#: Memory of a record, in addition to its bytes, while its columns are built; and maximum records of a batch.
RECORD_BYTES: Final = 400
_MAX_RECORDS: Final = 1_000_000


class LogBatch(NamedTuple):
    """One committed record batch."""

    base_offset: int
    #: The offset after its last record, counting records that compaction removed.
    next_offset: int
    records: int
    first_timestamp: int
    #: Milliseconds that apply to all of its records; None if each record has its own time.
    append_time: int | None
    #: Its records, decompressed.
    payload: bytes | memoryview

    @property
    def weight(self) -> int:
        """Approximate memory of its records in bytes."""
        return len(self.payload) + RECORD_BYTES * self.records


class Fetched(NamedTuple):
    """The result of one fetch for one partition."""

    batches: list[LogBatch]
    #: Start of the next fetch: after all inspected batches, including markers and aborted records.
    next_offset: int


def committed(
    data: bytes, offset: int, aborted: Collection[tuple[int, int]] = (), room: int = MAX_BYTES
) -> Fetched:
    """Return the committed batches of `data`, which was fetched from `offset`.

    `aborted`: producer's id and first offset of each aborted transaction in `data`, as Kafka returns
    them.  Batches after those that fill `room` (by weight) are left for the next fetch.
    Raise `CorruptBatchError`.
    """
    transactions = _Aborted(aborted)
    batches: list[LogBatch] = []
    for head, payload in _whole_batches(data):
        base, _, _, _, _, attributes, last_delta, first_timestamp, largest, producer, _, _, count = head
        next_offset = base + last_delta + 1
        if next_offset <= offset:  # Kafka sends a compressed batch whole
            continue
        if room <= 0:
            break
        offset = next_offset
        transactions.reach(base)
        if attributes & _CONTROL:
            transactions.apply_marker(producer, payload)
        elif not (attributes & _TRANSACTIONAL and producer in transactions.running) and count > 0:
            append_time = largest if attributes & _LOG_APPEND_TIME else None
            if count > _MAX_RECORDS:
                raise CorruptBatchError(f"the record batch at offset {base} has {count:,} records")
            records = decompressed(attributes & _CODEC, payload, base)
            batches.append(LogBatch(base, next_offset, count, first_timestamp, append_time, records))
            room -= batches[-1].weight
    return Fetched(batches, offset)


class _Aborted:
    """The producers with a running aborted transaction, while the batches are read in order."""

    def __init__(self, aborted: Collection[tuple[int, int]]) -> None:
        self._to_come = sorted(((first, producer) for producer, first in aborted), reverse=True)
        self.running: set[int] = set()

    def reach(self, offset: int) -> None:
        while self._to_come and self._to_come[-1][0] <= offset:
            self.running.add(self._to_come.pop()[1])

    def apply_marker(self, producer: int, payload: memoryview) -> None:
        if len(payload) >= _MARKER.size and _MARKER.unpack_from(payload)[1] == _ABORT:
            self.running.discard(producer)


def _whole_batches(data: bytes) -> Iterator[tuple[Sequence[int], memoryview]]:
    """Yield each batch's header and its records as sent; exclude a truncated batch."""
    view, at, end = memoryview(data), 0, len(data)
    while at + _MIN_BYTES <= end:
        if data[at + _MAGIC_AT] != _MAGIC:
            offset = int.from_bytes(data[at : at + 8], "big")
            raise CorruptBatchError(
                f"offset {offset} has message format {data[at + _MAGIC_AT]}, which Kafka replaced in 2017: "
                "rewrite the topic's records with a current producer"
            )
        length = int.from_bytes(data[at + 8 : at + _LENGTH_ENDS_AT], "big", signed=True)
        following = at + _LENGTH_ENDS_AT + length
        if following > end:
            return
        if length < _HEAD.size - _LENGTH_ENDS_AT:
            raise CorruptBatchError(f"a record batch of {length} bytes is shorter than its header")
        head = _HEAD.unpack_from(data, at)
        if calc_crc32c(view[at + _CRC_COVERS_FROM : following]) != head[4]:
            raise CorruptBatchError(f"the record batch at offset {head[0]} does not have its checksum")
        yield head, view[at + _HEAD.size : following]
        at = following
