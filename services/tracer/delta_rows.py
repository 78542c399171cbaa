"""Counts rows of a Delta table by id; statistics of the log exclude the files of earlier times."""

from collections.abc import Collection
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from shared.lake.delta_log import open_table
from shared.lake.delta_storage import native_files
from shared.lake.storage import Storage


def count(storage: Storage, table: str, ids: Collection[str], since: datetime) -> dict[str, int]:
    """Return the number of rows of each id received at `since` or later; none without the table.

    Raise errors of the storage and of a damaged table.
    """
    handle = open_table(storage, table)
    if handle is None:
        return {}
    is_recent = ds.field("_received_at") >= pa.scalar(since, pa.timestamp("us", "UTC"))
    dataset = handle.to_pyarrow_dataset(filesystem=native_files(storage, table))
    rows = dataset.to_table(columns=["_id"], filter=is_recent & ds.field("_id").isin(list(ids)))
    counts = pc.value_counts(rows["_id"].combine_chunks()).to_pylist()
    return {each["values"]: each["counts"] for each in counts}
