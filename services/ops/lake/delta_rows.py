"""Rows of a lake's table by receipt: the statistics of the log exclude most files."""

from typing import NamedTuple

import pyarrow.dataset as ds

from services.ops.findings import Source
from services.ops.lake.delta_facts import ERRORS, unavailable
from shared.lake.delta_log import open_table
from shared.lake.delta_storage import native_files
from shared.lake.storage import Storage
from shared.lake.transactions import DROPPED_BEFORE


class RowAnswer(NamedTuple):
    """Whether a table has the row of a receipt, and whether it has later rows of its partition."""

    has_row: bool
    has_later: bool
    #: Whether `keep_days` has dropped rows of the table.
    has_dropped: bool


def row_of(storage: Storage, table: str, source: Source, offset: int) -> RowAnswer | None:
    """Return the answer of a table; None without such a table.  Raise `InfrastructureError`."""
    try:
        handle = open_table(storage, table)
        if handle is None:
            return None
        rows = handle.to_pyarrow_dataset(filesystem=native_files(storage, table))
        here = (ds.field("_topic") == source.topic) & (ds.field("_partition") == source.partition)
        has_row = rows.count_rows(filter=here & (ds.field("_offset") == offset)) > 0
        later = not has_row and rows.filter(here & (ds.field("_offset") > offset)).head(1).num_rows > 0
        return RowAnswer(has_row, later, handle.transaction_version(DROPPED_BEFORE) is not None)
    except ERRORS as error:
        raise unavailable(f"table {table} of the lake cannot be read", error) from error
