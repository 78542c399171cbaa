"""The lake's storage as a filesystem of pyarrow, which reads S3 with the options of delta-rs."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import (
    FileSelector,
    FileSystem,
    FileType,
    LocalFileSystem,
    PyFileSystem,
    S3FileSystem,
    SubTreeFileSystem,
)

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


def native_files(storage: Storage, table: str) -> FileSystem:
    """Return the folder of a table to read, without delta-rs.

    DuckDB and Arrow read files in threads of their own. A filesystem in Python needs the interpreter there:
    a query that ends before it has read all files would block, or crash the process at its end.
    """
    if storage.is_local:
        return SubTreeFileSystem(storage.table_url(table), LocalFileSystem())
    options = storage.options()
    endpoint = urlsplit(storage.endpoint)
    bucket = S3FileSystem(
        access_key=options.get("AWS_ACCESS_KEY_ID"),
        secret_key=options.get("AWS_SECRET_ACCESS_KEY"),
        session_token=options.get("AWS_SESSION_TOKEN"),
        region=storage.region,
        endpoint_override=endpoint.netloc or None,
        scheme=endpoint.scheme or "https",
        request_timeout=storage.request_seconds,
        connect_timeout=min(storage.request_seconds, 5),
    )
    return SubTreeFileSystem(storage.table_url(table).partition("://")[2], bucket)


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
