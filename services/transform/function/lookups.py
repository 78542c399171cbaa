"""A snapshot of a lookup's table, identified by its content: the driver makes it, and tasks receive it."""

import os
import sqlite3
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

#: A table up to this size is a dict in the function's process; a larger one is an SQLite file.
MAX_DICT_ROWS: Final = 50_000
_AT_ONCE: Final = 5_000


class RepeatedKeyError(Exception):
    """Two rows have the same key."""


class LookupTable(NamedTuple):
    """The rows of a table by key.  It is pickled for each Spark worker once."""

    name: str
    #: SHA-256 of the rows: tables of equal content are equal.
    digest: str
    rows: int
    #: JSON of each row's JSON by key; if `is_file`, an SQLite database with the table `rows`.
    content: bytes
    is_file: bool = False


def table_of(name: str, rows: Mapping[str, Mapping[str, Any]]) -> LookupTable:
    """Return the snapshot of rows in memory, of tests and of `NAME.tests.yaml`."""
    return snapshot_of(name, ((key, orjson.dumps(row).decode()) for key, row in rows.items()))


def snapshot_of(
    name: str, rows: Iterable[tuple[str, str]], max_dict_rows: int = MAX_DICT_ROWS
) -> LookupTable:
    """Return the snapshot of (key, JSON of the row) pairs.  Raise `RepeatedKeyError`.

    At most `max_dict_rows` rows are held in memory; with more, the rows go to a temporary SQLite file.
    """
    iterator = iter(rows)
    first: dict[str, str] = {}
    for key, row in iterator:
        if key in first:
            raise RepeatedKeyError
        first[key] = row
        if len(first) > max_dict_rows:
            return _file_of(name, first, iterator)
    content = orjson.dumps(dict(sorted(first.items())))
    return LookupTable(name, sha256(content).hexdigest(), len(first), content)


def _file_of(name: str, first: Mapping[str, str], others: Iterable[tuple[str, str]]) -> LookupTable:
    with tempfile.TemporaryDirectory(prefix="onramp-lookup-") as folder:
        path = Path(folder, "rows.sqlite")
        with closing(sqlite3.connect(path, isolation_level=None)) as conn:
            conn.execute("PRAGMA journal_mode = OFF")
            conn.execute("CREATE TABLE rows (key TEXT PRIMARY KEY, row TEXT NOT NULL) WITHOUT ROWID")
            conn.execute("BEGIN")
            conn.executemany("INSERT INTO rows VALUES (?, ?)", first.items())
            try:
                conn.executemany("INSERT INTO rows VALUES (?, ?)", others)
            except sqlite3.IntegrityError:
                raise RepeatedKeyError from None
            conn.execute("COMMIT")
            digest, count = sha256(), 0
            for key, row in conn.execute("SELECT key, row FROM rows ORDER BY key"):
                digest.update(orjson.dumps([key, row]))
                count += 1
        return LookupTable(name, digest.hexdigest(), count, path.read_bytes(), is_file=True)


def path_of(table: LookupTable, folder: Path | None = None) -> Path:
    """Return the path of a table's SQLite file on this machine, and write it if it is absent.

    All processes of a user share the file; the newest two of each table are retained.
    """
    folder = folder or Path(tempfile.gettempdir(), f"onramp-lookups-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not folder.is_dir() or folder.is_symlink() or status.st_uid != os.getuid():
        raise PermissionError(f"{folder} is not this user's own folder")
    path = folder / f"{table.name}-{table.digest}.sqlite"
    if not path.exists():
        handle, partial = tempfile.mkstemp(dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(table.content)
            Path(partial).replace(path)
        except BaseException:
            Path(partial).unlink(missing_ok=True)
            raise
        _remove_older(folder, table, path)
    return path


def _remove_older(folder: Path, table: LookupTable, path: Path) -> None:
    """Remove the table's files except for the newest two: a child may open the one before."""
    ages = []
    for each in folder.glob(f"{table.name}-{'?' * 64}.sqlite"):
        with suppress(FileNotFoundError):
            ages.append((each.stat().st_mtime_ns, each))
    for _, old in sorted(ages)[:-2]:
        if old != path:
            old.unlink(missing_ok=True)
