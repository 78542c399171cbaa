"""Statistics of a written data file, as the Delta log stores them: readers skip files by minimum and maximum.

They come from the file's own footer. A bound is left out rather than rounded, because a reader that trusts a
wrong one does not find rows.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from math import isfinite
from typing import Any, Final

import pyarrow.parquet as pq

#: Longer texts are not worth their place in the log.
_MAX_TEXT: Final = 64


def statistics_json(footer: pq.FileMetaData, bounded: Iterable[str]) -> str:
    """Return the statistics of a file for its add action, of the columns `bounded`."""
    columns = {footer.schema.column(i).name: i for i in range(footer.num_columns)}
    null_count: dict[str, int] = {}
    minima: dict[str, Any] = {}
    maxima: dict[str, Any] = {}
    for name in bounded:
        if name not in columns:
            continue
        nulls = _nulls(footer, columns[name])
        if nulls is not None:
            null_count[name] = nulls
        if limits := _limits(footer, columns[name]):
            minima[name], maxima[name] = limits
    return json.dumps(
        {
            "numRecords": footer.num_rows,
            "minValues": minima,
            "maxValues": maxima,
            "nullCount": null_count,
        }
    )


def _nulls(footer: pq.FileMetaData, index: int) -> int | None:
    """Return the number of nulls of a column, or None if it is unknown."""
    parts = [footer.row_group(group).column(index).statistics for group in range(footer.num_row_groups)]
    if any(part is None or not part.has_null_count for part in parts):
        return None
    return sum(int(part.null_count) for part in parts)


def _limits(footer: pq.FileMetaData, index: int) -> tuple[Any, Any] | None:
    """Return a column's minimum and maximum as JSON values, or None if one is unknown."""
    values: list[Any] = []
    for part in _filled(footer, index):
        if not part.has_min_max:
            return None
        values += (part.min, part.max)
    if not values:
        return None
    low, high = _json_value(min(values)), _json_value(max(values))
    return None if low is None or high is None else (low, high)


def _filled(footer: pq.FileMetaData, index: int) -> Iterator[Any]:
    """Yield a column's statistics in each row group that has a value."""
    for group in range(footer.num_row_groups):
        part = footer.row_group(group).column(index).statistics
        if not part.has_null_count or part.null_count < footer.row_group(group).num_rows:
            yield part


def _json_value(value: object) -> Any:
    match value:
        case bool():
            return None
        case float() | str() if _is_unbounded(value):
            return None
        case int() | float() | str():
            return value
        case datetime():
            moment = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
            return f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z"
        case date():
            return value.isoformat()
    return None


def _is_unbounded(value: float | str) -> bool:
    return len(value) > _MAX_TEXT if isinstance(value, str) else not isfinite(value)
