"""Arrow's arrays of bytes and texts, seen as the one run of bytes that they are."""

from typing import Any

import numpy as np
import pyarrow as pa


def offsets(column: pa.Array) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Where each element begins in the array's data, and where the last ends."""
    found = np.frombuffer(column.buffers()[1], np.int32)
    return found[column.offset : column.offset + len(column) + 1]


def joined(column: pa.Array) -> memoryview:
    """The elements' bytes, one after the other."""
    at = offsets(column)
    return memoryview(column.buffers()[2] or b"")[int(at[0]) : int(at[-1])]
