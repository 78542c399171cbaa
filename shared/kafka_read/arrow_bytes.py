"""Views of the buffers of Arrow's binary and string arrays, without a copy."""

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def offsets(column: pa.Array) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Return the byte offset of each element in the array's data buffer, and the end of the last."""
    all_offsets = np.frombuffer(column.buffers()[1], np.int32)
    return all_offsets[column.offset : column.offset + len(column) + 1]


def joined(column: pa.Array) -> memoryview:
    """Return the concatenated bytes of all elements."""
    ends = offsets(column)
    return memoryview(column.buffers()[2] or b"")[int(ends[0]) : int(ends[-1])]


def place_in(whole: bytes, raw: msgspec.Raw) -> tuple[int, int]:
    """Return the start and end of `raw`, which is a view of `whole`, within `whole`."""
    part = np.frombuffer(memoryview(raw), np.uint8)
    start = int(part.ctypes.data - np.frombuffer(whole, np.uint8).ctypes.data)
    assert whole[start : start + len(part)] == bytes(raw)  # noqa: S101 - it is a view
    return start, start + len(part)


class Pieces:
    """Bytes cut at `bounds`, a row of positions per value; the pieces cover every byte, without a copy."""

    def __init__(self, bounds: np.ndarray[Any, np.dtype[Any]], end: int, raw: object) -> None:
        """`end`: the end of the last piece in the bytes `raw`."""
        n, self._each = bounds.shape
        cuts = np.append(bounds.ravel(), end).astype(np.int32)
        self._pieces = pa.Array.from_buffers(
            pa.binary(), n * self._each, [None, pa.py_buffer(cuts), pa.py_buffer(raw)]
        )

    def column(self, i: int) -> pa.BinaryArray:
        """Return piece number `i` of each value; the last piece extends to the start of the next value."""
        return self._pieces.take(pa.array(np.arange(i, len(self._pieces), self._each)))

    def equal(self, i: int, text: bytes) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return which values have `text` as piece number `i`."""
        matches: np.ndarray[Any, np.dtype[np.bool_]] = pc.equal(
            self.column(i), pa.scalar(text, pa.binary())
        ).to_numpy(zero_copy_only=False)
        return matches
