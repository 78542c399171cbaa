"""Views of the buffers of Arrow's binary and string arrays, without a copy."""

from typing import Any

import numpy as np
import pyarrow as pa


def offsets(column: pa.Array) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Return the byte offset of each element in the array's data buffer, and the end of the last."""
    all_offsets = np.frombuffer(column.buffers()[1], np.int32)
    return all_offsets[column.offset : column.offset + len(column) + 1]


def joined(column: pa.Array) -> memoryview:
    """Return the bytes of all elements, one after the other."""
    ends = offsets(column)
    return memoryview(column.buffers()[2] or b"")[int(ends[0]) : int(ends[-1])]
