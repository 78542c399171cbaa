"""Converts the records of many batches to Arrow columns, with a few NumPy operations for all of them.

A record is a chain of variable-length fields, so Python walks from record to record once, by their
lengths; every other operation handles thousands of records.  Headers in the gateway's form are recognized
by their bytes; others are read one by one (`record_headers`).
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from shared.kafka_read.decompress import CorruptBatchError
from shared.kafka_read.log_batches import LogBatch
from shared.kafka_read.record_headers import GATEWAY_HEADERS, headers_of
from shared.kafka_read.records import ARRIVALS, FIRST_MS, LAST_MS, USUAL, Headers
from shared.kafka_read.varints import (
    MASK_32,
    MASK_64,
    MAX_BYTES,
    VARINT_BITS,
    Bytes,
    Ints,
    read_varints,
)

#: Bytes that may be read past the last record: a varint, or the headers of a gateway.
_PADDING: Final = bytes(max(MAX_BYTES, GATEWAY_HEADERS.longest) + 1)


class Records:
    """Consecutive records in `data`, with the start and end of each."""

    def __init__(self, batches: Sequence[LogBatch]) -> None:
        """Raise `CorruptBatchError` if the lengths of records do not add up to their batch."""
        self.data = b"".join([*(b.payload for b in batches), _PADDING])
        self.counts = np.array([b.records for b in batches], np.int64)
        starts, ends = _spans(self.data, batches)
        self.starts, self.ends = np.array(starts, np.int64), np.array(ends, np.int64)


def _spans(data: bytes, batches: Sequence[LogBatch]) -> tuple[list[int], list[int]]:
    """Return the start of each record, after its length, and its end."""
    starts: list[int] = []
    ends: list[int] = []
    at = batch_end = 0
    for batch in batches:
        batch_end += len(batch.payload)
        for _ in range(batch.records):
            # Varints of one or two bytes (lengths up to 8 kB) are decoded inline: a call costs more.
            byte = data[at]
            at += 1
            if byte <= VARINT_BITS:
                length = byte >> 1
            else:
                length, shift = byte & VARINT_BITS, 7
                while (byte := data[at]) > VARINT_BITS:
                    length |= (byte & VARINT_BITS) << shift
                    shift += 7
                    at += 1
                length = ((length | byte << shift) & MASK_32) >> 1
                at += 1
            starts.append(at)
            at += length
            ends.append(at)
            if at > batch_end:
                break
        if at != batch_end:
            raise CorruptBatchError(f"the records of the batch at offset {batch.base_offset} do not fill it")
    return starts, ends


def columns(batches: Sequence[LogBatch], first: Ints, end: Ints) -> tuple[pa.RecordBatch, Ints]:
    """Return the records of `batches` as columns of `ARRIVALS` except topic and partition.

    The rows of a batch are its offsets `first` (included) to `end` (excluded).  The second result is the
    number of rows of each batch.  Raise `CorruptBatchError`.
    """
    records = Records(batches)
    data = np.frombuffer(records.data, np.uint8)
    of_batch = np.repeat(np.arange(len(batches)), records.counts)
    # After the attributes, which are unused.
    time_deltas, at = read_varints(data, records.starts + 1, mask=MASK_64)
    offset_deltas, at = read_varints(data, at)
    offsets = _offsets(batches, records.counts, of_batch, offset_deltas)
    wanted = np.flatnonzero((offsets >= first[of_batch]) & (offsets < end[of_batch]))
    if len(wanted) < len(offsets):
        of_batch, offsets, at = of_batch[wanted], offsets[wanted], at[wanted]
    ends, time_deltas = records.ends[wanted], time_deltas[wanted]
    times = _timestamps(batches, of_batch, time_deltas)
    key_sizes, at = read_varints(data, at)
    keys_end = _field_ends(at, key_sizes, ends)
    value_sizes, values_at = read_varints(data, keys_end)
    values_end = _field_ends(values_at, value_sizes, ends)
    contexts, received_at = _headers(records.data, data, values_end, ends)
    carried = (value_sizes >= 0) & contexts.is_valid().to_numpy(zero_copy_only=False)
    rows = [
        pa.array(offsets),
        _slices(records.data, values_at, values_end, carried),
        received_at,
        times,
        contexts,
    ]
    return pa.RecordBatch.from_arrays(rows, schema=COLUMNS), np.bincount(of_batch, minlength=len(batches))


#: The columns of `ARRIVALS` that differ from record to record.
COLUMNS: Final = pa.schema(
    [ARRIVALS.field(n) for n in ("offset", "value", "received_at", "timestamp", "context")]
)


def _offsets(batches: Sequence[LogBatch], counts: Ints, of_batch: Ints, deltas: Ints) -> Ints:
    """Return each record's offset, as Kafka assigned it, regardless of the record's own delta.

    Kafka assigns a batch as many offsets as it has records, and does not check the deltas of an uncompressed
    batch.  The deltas count only if compaction removed records, because Kafka wrote such batches itself.
    Raise `CorruptBatchError`.
    """
    bases = np.array([b.base_offset for b in batches], np.int64)
    ends = np.array([b.next_offset for b in batches], np.int64)
    in_a_row = np.arange(len(deltas)) + (bases - np.cumsum(counts) + counts)[of_batch]
    whole = counts == ends - bases
    if whole.all():
        return in_a_row
    offsets = np.where(whole[of_batch], in_a_row, bases[of_batch] + deltas)
    falls = (np.diff(offsets) <= 0) & (of_batch[1:] == of_batch[:-1])
    if np.any(falls) or np.any(offsets < bases[of_batch]) or np.any(offsets >= ends[of_batch]):
        raise CorruptBatchError(
            f"the offsets in a batch from {bases[0]} on are unordered or outside the batch"
        )
    return offsets


def _field_ends(starts: Ints, sizes: Ints, ends: Ints) -> Ints:
    """Return the end of each field.  Raise `CorruptBatchError` if it is past the end of the record."""
    field_ends = starts + np.maximum(sizes, 0)
    if np.any(field_ends >= ends) or np.any(field_ends < starts):
        raise CorruptBatchError("a record is longer than its declared length")
    return field_ends


def _timestamps(batches: Sequence[LogBatch], of_batch: Ints, deltas: Ints) -> pa.Array:
    """Return the records' times, clamped to the range of `ARRIVALS`."""
    first = np.array([b.first_timestamp for b in batches], np.int64)
    append = np.array([-1 if b.append_time is None else b.append_time for b in batches], np.int64)
    appended = np.array([b.append_time is not None for b in batches])[of_batch]
    with np.errstate(over="ignore"):
        times = np.where(appended, append[of_batch], first[of_batch] + deltas)
    return pa.array(np.clip(times, FIRST_MS, LAST_MS) * 1000).cast(ARRIVALS.field("timestamp").type)


def _headers(raw: bytes, data: Bytes, starts: Ints, ends: Ints) -> tuple[pa.Array, pa.Array]:
    """Return the columns `context` and `received_at` of the headers between `starts` and `ends`."""
    usual, received_at, received_end = GATEWAY_HEADERS.find(data, starts, ends)
    if usual.all():
        return _usual_contexts(len(starts)), _slices(raw, received_at, received_end, None)
    known: dict[bytes, Headers] = {}
    contexts: list[bytes | None] = [USUAL] * len(starts)
    received: list[bytes | None] = _slices(raw, received_at, received_end, usual).to_pylist()
    for row in np.flatnonzero(~usual).tolist():
        written = raw[starts[row] : ends[row]]
        if (headers := known.get(written)) is None:
            headers = known[written] = headers_of(written)
        contexts[row], received[row] = headers
    return pa.array(contexts, pa.binary()), pa.array(received, pa.binary())


def _usual_contexts(count: int) -> pa.Array:
    return pa.BinaryArray.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(bytes(4 * (count + 1))), pa.py_buffer(USUAL)]
    )


def _slices(raw: bytes, starts: Ints, ends: Ints, valid: np.ndarray | None) -> pa.Array:
    """Return the slices of `raw` from `starts` to `ends`, in order; null where `valid` is false.

    For Arrow the gaps between the slices are values too; only every second value is copied.
    """
    count = len(starts)
    if valid is not None and not valid.all():
        ends = np.where(valid, ends, starts)
    bounds = np.empty(2 * count + 1, np.int32)
    bounds[0:-1:2], bounds[1::2] = starts, ends
    bounds[-1] = ends[-1] if count else 0
    pieces = pa.BinaryArray.from_buffers(
        pa.binary(), 2 * count, [None, pa.py_buffer(bounds), pa.py_buffer(raw)]
    )
    indices = np.arange(0, 2 * count, 2)
    return pieces.take(pa.array(indices, mask=None if valid is None else ~valid))
