"""Reads top-level properties of payloads into typed columns; a value that does not fit is null and counted.

Arrow parses a whole column of payloads at once.  Where it fails, the column is halved, and a few payloads are
read one by one.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from shared.lake.lake_tables import Kind
from shared.lake.table_columns import KINDS

#: Payloads that are read one by one instead of halved.
_ONE_BY_ONE: Final = 32
_INT64: Final = range(-(2**63), 2**63)
_TIME: Final = KINDS[Kind.TIME]
#: Microseconds since 1970: the years 1 to 9999 in UTC.
_FIRST_TIME: Final = -62_135_596_800_000_000
_LAST_TIME: Final = 253_402_300_799_999_999


class TypedColumns(NamedTuple):
    """A column for each property, and the number of values that did not fit."""

    columns: list[pa.Array]
    rescued: int


def typed_columns(payloads: pa.Array, kinds: Mapping[str, Kind]) -> TypedColumns:
    """Return the columns of the properties `kinds`, in order; row i belongs to payload i."""
    if not kinds or not len(payloads):
        return TypedColumns([pa.nulls(len(payloads), KINDS[kind]) for kind in kinds.values()], 0)
    parts = _read(payloads, kinds)
    columns = [
        pa.concat_arrays([part.columns[n] for part in parts]) if len(parts) > 1 else parts[0].columns[n]
        for n in range(len(kinds))
    ]
    return TypedColumns(columns, sum(part.rescued for part in parts))


def _read(payloads: pa.Array, kinds: Mapping[str, Kind]) -> list[TypedColumns]:
    if len(payloads) <= _ONE_BY_ONE:
        return [_one_by_one(payloads.to_pylist(), kinds)]
    together = _together(payloads, kinds)
    if together is not None:
        return [together]
    half = len(payloads) // 2
    return [*_read(payloads.slice(0, half), kinds), *_read(payloads.slice(half), kinds)]


def _together(payloads: pa.Array, kinds: Mapping[str, Kind]) -> TypedColumns | None:
    """Return the columns; None if a value does not have exactly its type."""
    # Joined by Arrow: texts of Python cost 0.4 µs a row.
    whole = pa.ListArray.from_arrays(pa.array([0, len(payloads)], pa.int32()), payloads)
    data = pc.binary_join(whole, "\n")[0].as_buffer()
    schema = pa.schema(
        [(name, pa.string() if kind is Kind.TIME else KINDS[kind]) for name, kind in kinds.items()]
    )
    try:
        table = arrow_json.read_json(
            pa.BufferReader(data),
            arrow_json.ReadOptions(use_threads=False, block_size=data.size + 1),
            arrow_json.ParseOptions(
                explicit_schema=schema, newlines_in_values=True, unexpected_field_behavior="ignore"
            ),
        )
        if len(table) != len(payloads):
            return None
        columns = [table.column(n).combine_chunks() for n in range(len(schema))]
        return TypedColumns(
            [
                _times(each) if kind is Kind.TIME else each
                for each, kind in zip(columns, kinds.values(), strict=True)
            ],
            0,
        )
    except pa.ArrowInvalid:
        return None


def _times(texts: pa.Array) -> pa.Array:
    """Return texts of RFC 3339 as times; raise `pa.ArrowInvalid`, also for years beyond 1 to 9999."""
    times = pc.cast(texts, _TIME)
    bounds = pc.min_max(times.cast(pa.int64())).as_py()
    if bounds["min"] is not None and (bounds["min"] < _FIRST_TIME or bounds["max"] > _LAST_TIME):
        raise pa.ArrowInvalid("a year beyond 1 to 9999")
    return times


def _one_by_one(texts: Sequence[str], kinds: Mapping[str, Kind]) -> TypedColumns:
    columns: dict[str, list[Any]] = {name: [] for name in kinds}
    rescued = 0
    for text in texts:
        payload = _loaded(text)
        for name, kind in kinds.items():
            value = payload.get(name) if isinstance(payload, dict) else None
            fitting = _fitting(value, kind)
            columns[name].append(fitting)
            rescued += value is not None and fitting is None
    return TypedColumns([pa.array(columns[name], KINDS[kind]) for name, kind in kinds.items()], rescued)


def _loaded(text: str) -> Any:
    """Return the payload; numbers that no double has are infinite."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):  # SORT has parsed it, with other limits
            return None


def _fitting(value: Any, kind: Kind) -> Any:
    """Return the value as its column has it; None if it does not fit."""
    types, convert = _CONVERSIONS[kind]
    if not isinstance(value, types) or (isinstance(value, bool) and kind is not Kind.BOOLEAN):
        return None
    return convert(value)


def _text(value: str) -> str | None:
    """Return the text, unless it has half of a surrogate pair."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return None
    return value


def _integer(value: float) -> int | None:
    if isinstance(value, float) and not value.is_integer():
        return None
    return int(value) if int(value) in _INT64 else None


def _double(value: float) -> float | None:
    try:
        double = float(value)
    except OverflowError:
        return None
    return double if math.isfinite(double) else None


def _time(value: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value)
        return moment.astimezone(UTC) if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


_CONVERSIONS: Final[Mapping[Kind, tuple[Any, Callable[[Any], Any]]]] = {
    Kind.STRING: (str, _text),
    Kind.BOOLEAN: (bool, bool),
    Kind.INTEGER: ((int, float), _integer),
    Kind.NUMBER: ((int, float), _double),
    Kind.TIME: (str, _time),
}
