"""The lake's storage as a filesystem of pyarrow, which reads S3 with the options of delta-rs."""

from collections.abc import Mapping
from typing import Final

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector, FileType, PyFileSystem

from shared.lake.lake_tables import TABLE_NAME
from shared.lake.storage import Storage

_LOG: Final = "_delta_log"


def files_of(table: DeltaTable, sizes: Mapping[str, int] | None = None) -> PyFileSystem:
    """Return the folder of a table.  `sizes` of known files save a request for each."""
    return PyFileSystem(
        DeltaStorageHandler.from_table(
            table._table,  # noqa: SLF001 - as `to_pyarrow_dataset` of deltalake does
            table._storage_options,  # noqa: SLF001
            dict(sizes or {}),
        )
    )


def list_tables(storage: Storage) -> list[str]:
    """Return the names of the folders of the storage that hold a Delta log, in order.

    Names that no table of the lake has are left out. Raise `OSError` if the storage is not reachable.
    """
    try:
        folder = PyFileSystem(DeltaStorageHandler(storage.url, storage.options()))
    except TableNotFoundError:
        return []  # a local folder before its first table
    found = folder.get_file_info(FileSelector(""))
    names = sorted(each.base_name for each in found if each.type is FileType.Directory)
    return [name for name in names if TABLE_NAME.fullmatch(name) and _has_log(folder, name)]


def _has_log(folder: PyFileSystem, name: str) -> bool:
    return bool(folder.get_file_info(FileSelector(f"{name}/{_LOG}", allow_not_found=True)))
