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

#: Prefixes of the names of files that compaction writes.
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
        """Return whether compaction wrote the file."""
        return self.name.startswith((COMPACTED, CLOSED))


class Partition(NamedTuple):
    """A partition of a table: its column and the text of its value, both None without partitioning."""

    column: str | None = None
    value: str | None = None

    @property
    def values(self) -> dict[str, str | None]:
        """Return the partition as actions of the log name it."""
        return {self.column: self.value} if self.column else {}

    def __str__(self) -> str:
        """Return the value for messages."""
        return "all rows" if self.column is None else f"{self.column}={self.value or 'null'}"


def partition_column(table: DeltaTable) -> str | None:
    """Return the table's partition column, or None for an unpartitioned table."""
    columns = table.metadata().partition_columns
    return columns[0] if columns else None


def read_files(table: DeltaTable) -> Mapping[Partition, Sequence[DataFile]]:
    """Return the files of the table's snapshot by partition, the oldest of each first."""
    actions = pa.table(table.get_add_actions(flatten=True))
    column = partition_column(table)
    names = ("path", "size_bytes", "num_records", "modification_time", f"partition.{column}")
    files: dict[Partition, list[DataFile]] = defaultdict(list)
    for *fields, value in zip(*(_column(actions, name) for name in names), strict=True):
        files[Partition(column, None if value is None else str(value))].append(DataFile(*fields))
    for each in files.values():
        each.sort(key=lambda file: (file.added_ms, file.path))
    return files


def active_paths(table: DeltaTable) -> frozenset[str]:
    """Return the paths of all files of the table's snapshot."""
    return frozenset(_column(pa.table(table.get_add_actions(flatten=True)), "path"))


def newest_value(table: DeltaTable, column: str) -> Any:
    """Return the maximum of a column by the files' statistics, or None if no file has them."""
    actions = pa.table(table.get_add_actions(flatten=True))
    return max((each for each in _column(actions, f"max.{column}") if each is not None), default=None)


def _column(actions: pa.Table, name: str) -> list[Any]:
    if name not in actions.column_names:
        return [None] * actions.num_rows
    return list(actions.column(name).to_pylist())
