"""Facts about the lake's tables, from their Delta logs alone."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from shared.errors import LAKE_UNAVAILABLE, InfrastructureError
from shared.lake.delta_files import DataFile, Partition, newest_value, read_files
from shared.lake.delta_log import open_table, owner_of
from shared.lake.delta_storage import list_tables
from shared.lake.storage import Storage, reason_of

#: Size of a small file, as in the default settings of compaction.
SMALL_BYTES: Final = 32 * 1024 * 1024
#: Errors of the storage, and of a damaged table.
ERRORS: Final = (OSError, DeltaError, pa.ArrowException)


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A table's newest version.  `rows` is None if a file of another program has no statistics."""

    table: str
    owner: str | None
    version: int
    rows: int | None
    files: int
    small_files: int
    bytes: int
    dates: int
    last_received_at: str | None
    last_compaction_at: str | None

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class BrokenTable:
    """A table that cannot be read, and the reason."""

    table: str
    error: str

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """The files of one partition of a table."""

    partition: str
    rows: int | None
    files: int
    small_files: int
    bytes: int

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        return asdict(self)


def tables_facts(storage: Storage) -> Iterator[TableFacts | BrokenTable]:
    """Yield facts about each table of the storage.  Raise `InfrastructureError` if it cannot be listed."""
    for name in table_names(storage):
        try:
            table = open_table(storage, name)
            if table is not None:
                yield facts(name, table)
        except ERRORS as error:
            yield BrokenTable(name, reason_of(error))


def table_names(storage: Storage) -> Sequence[str]:
    """Return the tables of the storage.  Raise `InfrastructureError`."""
    try:
        return list_tables(storage)
    except ERRORS as error:
        raise unavailable(f"the lake at {storage.url} cannot be listed", error) from error


def opened(storage: Storage, name: str) -> DeltaTable:
    """Return a table at its newest version.  Raise `InfrastructureError`, also if it does not exist."""
    try:
        table = open_table(storage, name)
    except ERRORS as error:
        raise unavailable(f"table {name} cannot be read", error) from error
    if table is None:
        raise InfrastructureError(LAKE_UNAVAILABLE, f"there is no table {name} at {storage.url}")
    return table


def facts(name: str, table: DeltaTable) -> TableFacts:
    """Return facts about an open table."""
    partitions = read_files(table)
    files = [file for each in partitions.values() for file in each]
    rewritten = [file.added_ms for file in files if file.is_compacted]
    return TableFacts(
        table=name,
        owner=owner_of(table),
        version=table.version(),
        rows=_rows(files),
        files=len(files),
        small_files=_small(files),
        bytes=sum(file.bytes for file in files),
        dates=len(partitions),
        last_received_at=_text(newest_value(table, "_received_at")),
        last_compaction_at=_text(max(rewritten, default=None)),
    )


def partition_facts(table: DeltaTable) -> Sequence[PartitionFacts]:
    """Return facts about each partition, in order."""
    partitions: Mapping[Partition, Sequence[DataFile]] = read_files(table)
    return [
        PartitionFacts(str(each), _rows(files), len(files), _small(files), sum(file.bytes for file in files))
        for each, files in sorted(partitions.items(), key=lambda item: str(item[0]))
    ]


def unavailable(what: str, error: BaseException) -> InfrastructureError:
    """Return an error of the lake's storage as an `InfrastructureError`."""
    return InfrastructureError(LAKE_UNAVAILABLE, f"{what}: {reason_of(error)}")


def _rows(files: Sequence[DataFile]) -> int | None:
    if any(file.rows is None for file in files):
        return None
    return sum(file.rows or 0 for file in files)


def _small(files: Sequence[DataFile]) -> int:
    return sum(file.bytes < SMALL_BYTES for file in files)


def _text(moment: datetime | int | None) -> str | None:
    """Return a time, or milliseconds since 1970, as text."""
    if isinstance(moment, int):
        moment = datetime.fromtimestamp(moment / 1000, UTC)
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="seconds")
