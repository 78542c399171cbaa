"""READ and FILTER in a Spark worker: an Arrow batch as runs of one partition's events.

The columns are made by ``spark.py``; this is the other side of that contract.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from services.writer.ranges import Partition
from shared import wire

#: What a task receives, a row for each record of its ranges, in offset order per partition.
#: `wanted`: the context header has the usual bytes.  `context`: its bytes when it has others.
ARRIVALS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("value", pa.binary()),
        ("received_at", pa.binary()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("wanted", pa.bool_()),
        ("context", pa.binary()),
    ]
)


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring records of one partition."""

    partition: Partition
    rows: pa.RecordBatch

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def since(self, offset: int) -> "Run":
        """The records at `offset` and after it."""
        offsets = self.rows.column("offset").to_numpy()
        return Run(self.partition, self.rows.slice(int(np.searchsorted(offsets, offset))))

    def only(self, offsets: Collection[int]) -> "Run":
        """The records at `offsets`."""
        mask = pc.is_in(self.rows.column("offset"), pa.array(sorted(offsets), pa.int64()))
        return Run(self.partition, self.rows.filter(mask))

    def wanted(self) -> "Run":
        """The records that carry the writer's filter in their `context` header."""
        wanted = self.rows.column("wanted")
        if wanted.true_count == len(wanted):
            return self
        for i, context in enumerate(self.rows.column("context").to_pylist()):
            if context is not None and _means_us(context):
                wanted = pc.replace_with_mask(wanted, _only(i, len(wanted)), pa.array([True]))
        return Run(self.partition, self.rows.filter(wanted))


def runs(batch: pa.RecordBatch) -> Iterator[Run]:
    """`batch` cut where the partition changes."""
    if not batch.num_rows:
        return
    topics = batch.column("topic").dictionary_encode()
    names = topics.dictionary.to_pylist()
    codes = topics.indices.to_numpy()
    numbers = batch.column("partition").to_numpy()
    changes = np.flatnonzero((np.diff(codes) != 0) | (np.diff(numbers) != 0)) + 1
    starts = [0, *changes.tolist()]
    for start, end in zip(starts, [*starts[1:], batch.num_rows], strict=True):
        partition = Partition(names[codes[start]], int(numbers[start]))
        yield Run(partition, batch.slice(start, end - start))


def _means_us(context: bytes) -> bool:
    """Whether other bytes are the same JSON as the usual ones."""
    try:
        return bool(orjson.loads(context) == wire.CONTEXT)
    except orjson.JSONDecodeError:
        return False


def _only(index: int, length: int) -> pa.Array:
    mask = np.zeros(length, dtype=bool)
    mask[index] = True
    return pa.array(mask)
