"""The lake's storage as a filesystem of Arrow, with the options of delta-rs.

The filesystem of delta-rs is written in Python: it holds the interpreter during each request, and a query
that ends before it has read all files blocks, or crashes the process at its end. Arrow's own do neither:
they read all files, and write local ones.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from deltalake import DeltaTable
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
_FILE: Final = "file://"


def files_of(table: DeltaTable) -> FileSystem:
    """Return the folder of an open table."""
    return _folder(table.table_uri, table._storage_options or {})  # noqa: SLF001 - no public name


def writable_files_of(table: DeltaTable) -> FileSystem:
    """Return the folder of an open table to write and delete files.

    On S3 by delta-rs: Arrow uploads with checksums that not every S3 service understands, and leaves empty
    objects in place of folders.
    """
    if table.table_uri.startswith("s3"):
        options = table._storage_options  # noqa: SLF001 - no public name
        return PyFileSystem(DeltaStorageHandler.from_table(table._table, options, {}))  # noqa: SLF001
    return files_of(table)


def native_files(storage: Storage, table: str) -> FileSystem:
    """Return the folder of a table of the storage."""
    return _folder(storage.table_url(table), storage.options())


def list_tables(storage: Storage) -> list[str]:
    """Return the names of the folders of the storage that hold a Delta log, in order.

    Names that no table of the lake can have are excluded. Raise `OSError` if the storage is not reachable.
    """
    folder = _folder(storage.url, storage.options())
    found = folder.get_file_info(FileSelector("", allow_not_found=True))
    names = sorted(each.base_name for each in found if each.type is FileType.Directory)
    return [name for name in names if TABLE_NAME.fullmatch(name) and _has_log(folder, name)]


def _has_log(folder: FileSystem, name: str) -> bool:
    return bool(folder.get_file_info(FileSelector(f"{name}/{_LOG}", allow_not_found=True)))


def _folder(address: str, options: Mapping[str, str]) -> FileSystem:
    scheme, _, rest = address.partition("://")
    if not rest:
        return SubTreeFileSystem(address, LocalFileSystem())
    if scheme == "file":
        return SubTreeFileSystem(unquote(address.removeprefix(_FILE)), LocalFileSystem())
    endpoint = urlsplit(options.get("AWS_ENDPOINT_URL", ""))
    bucket = S3FileSystem(
        access_key=options.get("AWS_ACCESS_KEY_ID"),
        secret_key=options.get("AWS_SECRET_ACCESS_KEY"),
        session_token=options.get("AWS_SESSION_TOKEN"),
        region=options.get("AWS_REGION"),
        endpoint_override=endpoint.netloc or None,
        scheme=endpoint.scheme or "https",
        request_timeout=_seconds(options, "timeout"),
        connect_timeout=_seconds(options, "connect_timeout"),
    )
    return SubTreeFileSystem(rest.rstrip("/"), bucket)


def _seconds(options: Mapping[str, str], name: str) -> float | None:
    text = options.get(name)
    return None if text is None else float(text.removesuffix("s"))
