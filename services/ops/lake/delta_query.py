"""SQL on the lake's tables, by DuckDB in this process: each table as its newest version.

DuckDB reads no file and loads no extension by itself: it gets the tables as Arrow datasets, which read the
storage with the lake's credentials.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time
from math import isfinite
from typing import Any, Final

import duckdb
import pyarrow as pa

from services.ops.lake.delta_facts import ERRORS, opened, table_names, unavailable
from shared.lake.delta_storage import native_files
from shared.lake.storage import Storage

_CONFIG: Final[dict[str, str | bool | int | float | list[str]]] = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
}
_BATCH_ROWS: Final = 1000


class QueryError(Exception):
    """DuckDB refuses the query: its message."""


@dataclass(frozen=True, slots=True)
class Result:
    """The columns of a query and its rows, which are read as they are needed."""

    columns: list[str]
    rows: Iterator[dict[str, Any]]


@contextmanager
def query(storage: Storage, sql: str) -> Iterator[Result]:
    """Run `sql` and yield its result.  Raise `QueryError` and `InfrastructureError`."""
    with duckdb.connect(config=_CONFIG) as connection:
        for name in table_names(storage):
            if re.search(rf"\b{name}\b", sql, re.IGNORECASE):
                dataset = opened(storage, name).to_pyarrow_dataset(filesystem=native_files(storage, name))
                connection.register(name, dataset)
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET lock_configuration = true")
        try:
            relation = connection.sql(sql)
            reader = None if relation is None else relation.to_arrow_reader(_BATCH_ROWS)
            names = reader.schema.names if reader is not None else []
            yield Result(names, _rows(reader))
        except duckdb.Error as error:
            raise QueryError(str(error)) from error
        except ERRORS as error:
            raise unavailable("a table of the lake cannot be read", error) from error


def _rows(reader: pa.RecordBatchReader | None) -> Iterator[dict[str, Any]]:
    for batch in reader or ():
        for row in batch.to_pylist():
            yield {name: plain(value) for name, value in row.items()}


def plain(value: Any) -> Any:
    """Return a value as JSON has it: numbers, texts, lists and objects."""
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return value.hex() if isinstance(value, bytes) else str(value)
