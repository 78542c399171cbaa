"""SORT for a source's topics: routes each change to the landing table of its source's table."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from services.writer.changes.read_changes import SourceTable, read
from services.writer.model.routes import SourceRoute
from services.writer.model.targets import Target
from services.writer.persist import landing_tables
from shared import change_table
from shared.kafka_read.records import PartitionSlice
from shared.parse.events import Events, RowIndices


def read_changes(
    part: PartitionSlice, source: SourceRoute
) -> tuple[Events, pa.RecordBatch, dict[Target, RowIndices]]:
    """Return the parsed changes of `part`, their rows, and the row indices of each table."""
    events, tables = read(part.rows.column("value").to_pylist())
    return events, landing_tables.rows(part.rows, events.columns), _by_target(tables, source)


def _by_target(tables: Sequence[SourceTable | None], source: SourceRoute) -> dict[Target, RowIndices]:
    indices: dict[SourceTable, list[int]] = defaultdict(list)
    for i, table in enumerate(tables):
        if table is not None:
            indices[table].append(i)
    return {_target(table, source): np.array(rows, dtype=np.int64) for table, rows in indices.items()}


def _target(table: SourceTable, source: SourceRoute) -> Target:
    name = (
        change_table.name_of(source.name, *table) if any(table) else change_table.transactions_of(source.name)
    )
    return Target(source.database, change_table.SCHEMA, name)
