"""Decodes Kafka's variable-length integers (zigzag, 7 bits per byte), for many records at once."""

from typing import Final

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
#: Maximum bytes of a varint: 64 bits, 7 per byte.
MAX_BYTES: Final = 10
#: Sizes, counts and offset deltas have 32 bits, time deltas 64.
MASK_32: Final = (1 << 32) - 1
MASK_64: Final = (1 << 64) - 1
_MORE: Final = 0x80
VARINT_BITS: Final = 0x7F


def read_varints(data: Bytes, at: Ints, *, mask: int = MASK_32) -> tuple[Ints, Ints]:
    """Return the integers that begin in `data` at each of `at`, and the end of each.

    Bits outside `mask` are dropped, as in Java, which reads five bytes for 32 bits.  `data` has `MAX_BYTES`
    bytes after each of `at`; bytes that are not an integer give an arbitrary number.
    """
    byte = data[at]
    unsigned = (byte & VARINT_BITS).astype(np.uint64)
    ends = at + 1
    going_on = np.flatnonzero(byte >= _MORE)
    for shift in range(7, 7 * MAX_BYTES, 7):
        if not len(going_on):
            break
        byte = data[ends[going_on]]
        unsigned[going_on] |= (byte & VARINT_BITS).astype(np.uint64) << np.uint64(shift)
        ends[going_on] += 1
        going_on = going_on[byte >= _MORE]
    unsigned &= np.uint64(mask)
    return (unsigned >> np.uint64(1)).astype(np.int64) ^ -(unsigned & np.uint64(1)).astype(np.int64), ends


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the 32-bit integer that begins in `data` at `at`, and its end.  Raise `IndexError`."""
    unsigned = shift = 0
    while True:
        byte = data[at]
        unsigned |= (byte & VARINT_BITS) << shift
        at += 1
        if byte < _MORE:
            unsigned &= MASK_32
            return (unsigned >> 1) ^ -(unsigned & 1), at
        shift += 7


def as_varint(number: int) -> bytes:
    """Return the non-negative `number` in Kafka's encoding."""
    unsigned, written = number << 1, bytearray()
    while unsigned > VARINT_BITS:
        written.append(unsigned & VARINT_BITS | _MORE)
        unsigned >>= 7
    written.append(unsigned)
    return bytes(written)
