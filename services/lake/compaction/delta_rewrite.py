"""Rewrites data files into larger ones, with a bounded amount of memory.

The new files are not part of the table until a commit names them. Files of a killed process are deleted by
vacuum, a week later.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Final, Self
from uuid import uuid4

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.transaction import AddAction
from pyarrow.fs import FileSystem

from services.lake.compaction.delta_replace import Replacement
from services.lake.compaction.file_statistics import statistics_json
from shared.lake.delta_files import CLOSED, COMPACTED, DataFile, Partition
from shared.lake.delta_storage import files_of, writable_files_of

_BATCH_ROWS: Final = 32_768
#: Rows and bytes in memory of a row group: readers decompress one at a time.
_GROUP_ROWS: Final = 262_144
_GROUP_BYTES: Final = 96 * 1024 * 1024
_ZSTD_LEVEL: Final = 1
#: The whole event: bounds of its text help no reader.
_UNBOUNDED: Final = frozenset({"payload"})
#: The table's property that names the columns with statistics.
_STATISTICS: Final = "delta.dataSkippingStatsColumns"


class RowCountError(Exception):
    """The rewritten files hold another number of rows than their sources: nothing is committed."""


def rewrite(
    table: DeltaTable, partition: Partition, files: Sequence[DataFile], *, target_bytes: int, closes: bool
) -> Replacement:
    """Write the rows of `files` of the partition into files of about `target_bytes`, in order.

    A column that a source does not have is null. Raises `RowCountError` if the log and the files disagree.
    """
    schema = pa.schema(
        [field for field in pa.schema(table.schema().to_arrow()) if field.name != partition.column]
    )
    storage = files_of(table)
    output = _Output(
        writable_files_of(table),
        schema,
        _folder(files[0].path),
        CLOSED if closes else COMPACTED,
        target_bytes,
    )
    with output:
        for group in _groups(_batches(storage, schema, files)):
            output.write(group)
    rows = sum(footer.num_rows for _, footer, _ in output.files)
    if all(file.rows is not None for file in files) and rows != sum(file.rows or 0 for file in files):
        msg = f"{rows} rows were read where the log says {sum(file.rows or 0 for file in files)}"
        raise RowCountError(msg)
    bounded = _bounded(table, schema)
    now = int(time.time() * 1000)
    actions = [
        AddAction(
            path, size, partition.values, now, data_change=False, stats=statistics_json(footer, bounded)
        )
        for path, footer, size in output.files
    ]
    return Replacement(partition, files, actions)


def _bounded(table: DeltaTable, schema: pa.Schema) -> Sequence[str]:
    """Return the columns whose bounds the log may hold: those that the table's properties name, if any."""
    named = table.metadata().configuration.get(_STATISTICS)
    if named is not None:
        return [name.strip() for name in named.split(",")]
    return [field.name for field in schema if field.name not in _UNBOUNDED]


def _folder(path: str) -> str:
    """Return the folder of a data file, with its slash; empty for the table's own folder."""
    return path[: path.rfind("/") + 1]


def _batches(storage: FileSystem, schema: pa.Schema, files: Sequence[DataFile]) -> Iterator[pa.RecordBatch]:
    dataset = ds.dataset([file.path for file in files], schema=schema, format="parquet", filesystem=storage)
    yield from dataset.to_batches(batch_size=_BATCH_ROWS, batch_readahead=2, fragment_readahead=2)


def _groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows as tables of the size of a row group."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)


class _Output:
    """Writes row groups into one file after another."""

    def __init__(
        self, storage: FileSystem, schema: pa.Schema, folder: str, prefix: str, target_bytes: int
    ) -> None:
        self._storage, self._schema = storage, schema
        self._folder, self._prefix, self._target = folder, prefix, target_bytes
        self._stream: pa.NativeFile | None = None
        self._writer: pq.ParquetWriter | None = None
        self._path = ""
        #: Path, footer and bytes of each finished file.
        self.files: list[tuple[str, pq.FileMetaData, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._finish(keep=kind is None)

    def write(self, group: pa.Table) -> None:
        """Write a row group, and finish the file if it is large enough."""
        if self._writer is None or self._stream is None:
            self._path = f"{self._folder}{self._prefix}{uuid4()}.zstd.parquet"
            self._stream = self._storage.open_output_stream(self._path)
            self._writer = pq.ParquetWriter(
                self._stream, self._schema, compression="zstd", compression_level=_ZSTD_LEVEL
            )
        self._writer.write_table(group, row_group_size=group.num_rows)
        if self._stream.tell() >= self._target:
            self._finish(keep=True)

    def _finish(self, *, keep: bool) -> None:
        writer, stream = self._writer, self._stream
        self._writer = self._stream = None
        if writer is None or stream is None:
            return
        writer.close()
        size = stream.tell()
        stream.close()
        if keep:
            self.files.append((self._path, writer.writer.metadata, size))
