"""The data files of a table's snapshot, by partition.

Reads the add actions of the Delta log alone, without opening a data file: a snapshot of 100,000 files takes
less than a second.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable

#: Prefixes of the names of files that this service writes.
COMPACTED: Final = "compacted-"
CLOSED: Final = "closed-"


class DataFile(NamedTuple):
    """A data file of a snapshot.  `rows` is None if its writer stored no statistics."""

    path: str
    bytes: int
    rows: int | None
    added_ms: int

    @property
    def name(self) -> str:
        """Return the name without its folder."""
        return PurePosixPath(self.path).name

    @property
    def is_closed(self) -> bool:
        """Return whether the file was written when its date was closed."""
        return self.name.startswith(CLOSED)

    @property
    def is_compacted(self) -> bool:
        """Return whether this service wrote the file."""
        return self.name.startswith((COMPACTED, CLOSED))


def partition_column(table: DeltaTable) -> str | None:
    """Return the table's partition column, or None for an unpartitioned table."""
    columns = table.metadata().partition_columns
    return columns[0] if columns else None


def read_files(table: DeltaTable) -> Mapping[str | None, Sequence[DataFile]]:
    """Return the files of the table's snapshot by partition value, oldest first; None is null."""
    actions = pa.table(table.get_add_actions(flatten=True))
    column = partition_column(table)
    values = _column(actions, f"partition.{column}") if column else [None] * actions.num_rows
    rows = _column(actions, "num_records")
    files: dict[str | None, list[DataFile]] = defaultdict(list)
    times = _column(actions, "modification_time")
    for path, size, count, added, value in zip(
        _column(actions, "path"), _column(actions, "size_bytes"), rows, times, values, strict=True
    ):
        key = None if value is None else str(value)
        files[key].append(DataFile(path, size, count, added))
    for each in files.values():
        each.sort(key=lambda file: (file.added_ms, file.path))
    return files


def active_paths(table: DeltaTable) -> frozenset[str]:
    """Return the paths of all files of the table's snapshot."""
    return frozenset(_column(pa.table(table.get_add_actions(flatten=True)), "path"))


def _column(actions: pa.Table, name: str) -> list[Any]:
    if name not in actions.column_names:
        return [None] * actions.num_rows
    return list(actions.column(name).to_pylist())
