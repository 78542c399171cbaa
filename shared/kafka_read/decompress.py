"""Decompresses a batch's records, up to a bound: a megabyte of zstd may be 30 GB, and Kafka accepts it.

Kafka bounds the compressed size, and reads the records of such a batch one by one.  A task holds all of
them in memory, so an unbounded batch would kill the worker, and with it the batch of all partitions.
"""

import struct
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from cramjam import snappy

#: Maximum decompressed bytes; producers bound a batch before compression by far less.
MAX_BYTES: Final = 128 << 20
_SNAPPY: Final = 2
_STREAMS: Final = {1: "gzip", 3: "lz4", 4: "zstd"}
_MIN_PIECE: Final = 16 << 10
_MAX_PIECE: Final = 1 << 20
#: Header of a snappy stream in Java's format: blocks follow the header, each after its length.
_JAVA_MAGIC: Final = b"\x82SNAPPY\0"
_JAVA_HEAD: Final = 16


class CorruptBatchError(Exception):
    """The bytes of a record batch are corrupt, or in a format that Onramp cannot read."""


def decompressed(codec: int, payload: memoryview, offset: int) -> bytes | memoryview:
    """Return the records in `payload` of the batch at `offset`.  Raise `CorruptBatchError`."""
    if not codec:
        return payload
    if codec != _SNAPPY and codec not in _STREAMS:
        raise CorruptBatchError(f"the record batch at offset {offset} has an unknown compression, {codec}")
    try:
        records = _snappy(payload) if codec == _SNAPPY else _stream(_STREAMS[codec], payload)
    except Exception as e:  # noqa: BLE001 - four libraries, each with its own errors
        raise CorruptBatchError(
            f"the record batch at offset {offset} cannot be decompressed: {type(e).__name__}"
        ) from None
    if records is None:
        raise CorruptBatchError(
            f"the record batch at offset {offset} has more than {MAX_BYTES:,} bytes when decompressed: "
            "configure its producer for smaller batches"
        )
    return records


def _stream(codec: str, payload: memoryview) -> bytes | None:
    """Return the decompressed bytes of `payload`, or None if they exceed `MAX_BYTES`."""
    pieces, left = [], MAX_BYTES
    piece_bytes = min(max(8 * len(payload), _MIN_PIECE), _MAX_PIECE)
    with pa.CompressedInputStream(pa.BufferReader(payload), codec) as stream:
        while piece := stream.read(piece_bytes):
            pieces.append(piece)
            left -= len(piece)
            if left < 0:
                return None
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _snappy(payload: memoryview) -> bytes | None:
    """Return the decompressed bytes, or None if the lengths that the blocks declare exceed `MAX_BYTES`.

    Decompression fails if a block does not have its declared length.
    """
    blocks = list(_blocks(payload)) if bytes(payload[:8]) == _JAVA_MAGIC else [payload]
    if sum(snappy.decompress_raw_len(block) for block in blocks) > MAX_BYTES:
        return None
    return b"".join(snappy.decompress_raw(block) for block in blocks)


def _blocks(payload: memoryview) -> Iterator[memoryview]:
    at = _JAVA_HEAD
    while at < len(payload):
        (length,) = struct.unpack_from(">I", payload, at)
        yield payload[at + 4 : at + 4 + length]
        at += 4 + length
