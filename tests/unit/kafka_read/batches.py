"""Record batches as Kafka sends them, written by aiokafka's own writer."""

import struct
from collections.abc import Sequence

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from shared.kafka_read.varints import as_varint, read_varint
from tests.fixtures.writer import CONTEXT

Headers = Sequence[tuple[str, bytes | None]]
_NO_PRODUCER = -1
_HEAD_BYTES = 61


def batch(
    base_offset: int,
    values: Sequence[bytes | None],
    *,
    headers: Headers = CONTEXT,
    codec: int = 0,
    producer: int = _NO_PRODUCER,
    transactional: bool = False,
    key: bytes | None = None,
) -> bytes:
    """One batch whose first record has `base_offset`."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=transactional,
        producer_id=producer,
        producer_epoch=0 if producer != _NO_PRODUCER else -1,
        base_sequence=-1,
        batch_size=1 << 24,
    )
    for delta, value in enumerate(values):
        assert builder.append(delta, 1_700_000_000_000 + delta, key, value, list(headers)) is not None
    return at_offset(bytes(builder.build()), base_offset)


def at_offset(written: bytes, offset: int) -> bytes:
    """The batch as its leader stores it: from `offset` on, which no checksum covers."""
    return offset.to_bytes(8, "big") + written[8:]


def with_deltas(written: bytes, deltas: Sequence[int]) -> bytes:
    """The batch, which is not compressed, with other offset deltas in its records and a right checksum."""
    records: list[bytes] = []
    view = written[_HEAD_BYTES:]
    while view:
        size, at = read_varint(view, 0)
        body, view = view[at : at + size], view[at + size :]
        after = read_varint(body, read_varint(body, 1)[1])[1]
        delta = as_varint(abs(d := deltas[len(records)]))
        changed_body = body[:2] + (delta if d >= 0 else bytes([delta[0] - 1]) + delta[1:]) + body[after:]
        records.append(as_varint(len(changed_body)) + changed_body)
    head = bytearray(written[:_HEAD_BYTES] + b"".join(records))
    head[8:12] = (len(head) - 12).to_bytes(4, "big")
    return changed(bytes(head))


def marker(base_offset: int, producer: int, *, commits: bool) -> bytes:
    """The end of a transaction of `producer`: a control batch, whose one record's key has the kind."""
    key = struct.pack(">hh", 0, int(commits))
    written = batch(base_offset, [bytes(6)], headers=(), producer=producer, transactional=True, key=key)
    return changed(written, attributes=0b11_0000)


def changed(
    written: bytes,
    *,
    attributes: int | None = None,
    last_offset_delta: int | None = None,
    count: int | None = None,
) -> bytes:
    """The batch with another head, whose checksum is right."""
    head = bytearray(written)
    if count is not None:
        head[57:61] = count.to_bytes(4, "big")
    if attributes is not None:
        head[21:23] = attributes.to_bytes(2, "big")
    if last_offset_delta is not None:
        head[23:27] = last_offset_delta.to_bytes(4, "big")
    head[17:21] = calc_crc32c(bytes(head[21:])).to_bytes(4, "big")
    return bytes(head)
