"""Drops the rows of whole partitions, and counts them by Kafka partition in the same commit.

The audit compares rows with events: without the count, dropped rows would be missing rows.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from services.lake.compaction.delta_replace import Replacement, replace_files
from services.lake.compaction.policy import end_of
from shared.lake.delta_files import DataFile, Partition, read_files
from shared.lake.delta_storage import files_of
from shared.lake.transactions import DROPPED_BEFORE, dropped_id

_EPOCH: Final = date(1970, 1, 1)
_SOURCE: Final = ["_topic", "_partition"]


def drop(table: DeltaTable, partition: Partition) -> int:
    """Remove the files of the partition in one commit; return the number of rows, 0 if another was first.

    Rows that land meanwhile stay until the next round. Raises as `replace_files`.
    """
    files = read_files(table).get(partition, ())
    if not files:
        return 0
    rows = _count(table, files)

    def dropped(snapshot: DeltaTable) -> Mapping[str, int]:
        identifiers = {dropped_id(*source): count for source, count in rows.items()}
        versions = {key: (snapshot.transaction_version(key) or 0) + n for key, n in identifiers.items()}
        if (end := end_of(partition)) is not None:
            day = (end - _EPOCH).days
            versions[DROPPED_BEFORE] = max(day, snapshot.transaction_version(DROPPED_BEFORE) or 0)
        return versions

    done = replace_files(table, [Replacement(partition, files)], transactions=dropped)
    return rows.total() if done else 0


def _count(table: DeltaTable, files: Sequence[DataFile]) -> Counter[tuple[str, int]]:
    """Return the number of rows by topic and Kafka partition."""
    storage = files_of(table)
    dataset = ds.dataset([file.path for file in files], format="parquet", filesystem=storage)
    rows: Counter[tuple[str, int]] = Counter()
    for batch in dataset.to_batches(columns=_SOURCE):
        counts = pa.Table.from_batches([batch]).group_by(_SOURCE).aggregate([([], "count_all")])
        for each in counts.to_pylist():
            rows[each["_topic"], each["_partition"]] += each["count_all"]
    return rows
