"""The receipts of a table's rows, in one snapshot, and the positions and counts that its log states.

A data file that is not in the storage, or cannot be read, is reported with the receipts that the log states
for it. Memory: eight bytes a row.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from services.ops.findings import Source
from services.ops.lake.delta_facts import ERRORS
from shared.lake.delta_log import position_of
from shared.lake.delta_storage import files_of
from shared.lake.lake_topic import PositionKey
from shared.lake.storage import reason_of
from shared.lake.transactions import DROPPED_BEFORE, TablePosition, dropped_id

_COLUMNS: Final = ("_topic", "_partition", "_offset")
_EPOCH: Final = date(1970, 1, 1)
_THREADS: Final = 8


class MissingFile(NamedTuple):
    """A data file of the snapshot that cannot be read."""

    path: str
    rows: int | None
    #: Range of the partitions and of the offsets of its rows, if the log states them.
    partitions: tuple[int, int] | None
    offsets: tuple[int, int] | None
    error: str


@dataclass(frozen=True, slots=True)
class TableReceipts:
    """The rows of a table by Kafka partition: their offsets in order, repeated ones included."""

    table: str
    version: int
    offsets: Mapping[Source, memoryview] = field(default_factory=dict)
    missing: Sequence[MissingFile] = ()
    positions: Mapping[PositionKey, TablePosition] = field(default_factory=dict)
    #: Rows that `keep_days` has dropped.
    dropped: Mapping[Source, int] = field(default_factory=dict)
    #: Rows of earlier dates may have been dropped.
    dropped_before: date | None = None


def read_receipts(
    name: str, table: DeltaTable, keys: Sequence[PositionKey], topic_ids: Mapping[str, str]
) -> TableReceipts:
    """Return the receipts of the table's rows, and its positions in the partitions of `keys` and of its rows.

    `topic_ids`: of the present topics.  Raise errors of the storage.
    """
    offsets, missing = _offsets(table)
    own = {key for key in keys if key.table == name}
    own |= {
        PositionKey(name, s.topic, topic_ids[s.topic], s.partition) for s in offsets if s.topic in topic_ids
    }
    positions = {
        key: position
        for key in own
        if (position := position_of(table, key.topic_id, key.partition)) is not None
    }
    sources = offsets.keys() | {Source(key.topic, key.partition) for key in own}
    dropped = {source: table.transaction_version(dropped_id(*source)) or 0 for source in sources}
    before = table.transaction_version(DROPPED_BEFORE)
    return TableReceipts(
        table=name,
        version=table.version(),
        offsets=offsets,
        missing=missing,
        positions=positions,
        dropped={source: rows for source, rows in dropped.items() if rows},
        dropped_before=None if before is None else _EPOCH + timedelta(days=before),
    )


def repeated(offsets: memoryview) -> Iterator[tuple[int, int]]:
    """Yield each offset that occurs more than once, and its number of rows."""
    values = pa.Array.from_buffers(pa.int64(), len(offsets), [None, pa.py_buffer(offsets)])
    if len(values) and pc.any(pc.equal(values[1:], values[:-1])).as_py():
        counts = pc.value_counts(values)
        for each in counts.filter(pc.greater(counts.field("counts"), 1)).to_pylist():
            yield each["values"], each["counts"]


def _offsets(table: DeltaTable) -> tuple[dict[Source, memoryview], list[MissingFile]]:
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    storage = files_of(table)

    def read(action: Mapping[str, Any]) -> pa.Table | MissingFile:
        try:
            with storage.open_input_file(action["path"]) as file:
                return pq.read_table(file, columns=list(_COLUMNS))
        except ERRORS as error:
            return _missing(action, reason_of(error))

    parts: dict[Source, list[pa.Array]] = defaultdict(list)
    missing: list[MissingFile] = []
    with ThreadPoolExecutor(_THREADS, "receipts") as threads:
        for result in threads.map(read, actions):
            if isinstance(result, MissingFile):
                missing.append(result)
                continue
            grouped = result.group_by(["_topic", "_partition"]).aggregate([("_offset", "list")])
            for topic, partition, values in zip(
                *(grouped.column(name) for name in ("_topic", "_partition", "_offset_list")), strict=True
            ):
                parts[Source(topic.as_py(), partition.as_py())].append(values.values)
    return {source: _sorted(arrays) for source, arrays in parts.items()}, missing


def _missing(action: Mapping[str, Any], error: str) -> MissingFile:
    def bounds(column: str) -> tuple[int, int] | None:
        low, high = action.get(f"min.{column}"), action.get(f"max.{column}")
        return None if low is None or high is None else (low, high)

    return MissingFile(
        action["path"], action.get("num_records"), bounds("_partition"), bounds("_offset"), error
    )


def _sorted(arrays: list[pa.Array]) -> memoryview:
    """Return the values of the arrays in order."""
    ordered = pa.concat_arrays(arrays).cast(pa.int64()).sort()
    values = memoryview(ordered.buffers()[1]).cast("q")
    return values[ordered.offset : ordered.offset + len(ordered)]
