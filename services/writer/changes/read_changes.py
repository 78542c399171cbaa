"""Parses the values of a source's topics: Debezium's changes and its transaction records.

A change lands unchanged, so only its `source` block is parsed, which identifies the change's table; the
topic does not, because two tables can share a topic's name.  A value that is not a change is parked.
"""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import msgspec
import pyarrow as pa

from shared.errors import NOT_A_CHANGE, UserError
from shared.parse.events import COLUMNS, Events
from shared.postgres.names import MAX_NAME_BYTES, is_name


class _Source(msgspec.Struct, gc=False):
    schema: str
    table: str


class _Change(msgspec.Struct, gc=False):
    """A change, which has `op` and `source`, or a transaction record, which has `status` and `id`."""

    op: Literal["c", "u", "d", "r", "t"] | None = None
    source: _Source | None = None
    status: Literal["BEGIN", "END"] | None = None
    id: str | None = None


class SourceTable(NamedTuple):
    """The source's table of a change; both names are empty for a transaction record."""

    schema: str
    table: str


_TRANSACTION: Final = SourceTable("", "")
_decode: Final = msgspec.json.Decoder(_Change).decode


def read(values: Sequence[bytes | None]) -> tuple[Events, list[SourceTable | None]]:
    """Parse `values`; return a row for each value, its `body` the change, and the table of each change."""
    parsed = [_read_one(value) for value in values]
    errors = {i: p for i, p in enumerate(parsed) if isinstance(p, UserError)}
    bodies = [None if i in errors else value for i, value in enumerate(values)]
    nothing = [pa.nulls(len(values), field.type) for field in COLUMNS]
    nothing[COLUMNS.get_field_index("body")] = pa.array(bodies, pa.binary()).cast(pa.string())
    columns = pa.RecordBatch.from_arrays(nothing, schema=COLUMNS)
    return Events(columns, errors), [None if isinstance(p, UserError) else p for p in parsed]


def _read_one(value: bytes | None) -> SourceTable | UserError:
    if value is None:
        return UserError(
            NOT_A_CHANGE, "the record has no value (a tombstone): set tombstones.on.delete=false"
        )
    try:
        value.decode()
        change = _decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as e:
        return UserError(NOT_A_CHANGE, "the value is not a JSON change" if _is_of_values(e) else str(e))
    if change.source is not None and change.op is not None:
        return _named(change.source)
    if change.status is not None and change.id is not None:
        return _TRANSACTION
    return UserError(
        NOT_A_CHANGE, "the value has neither op and source (a change) nor status and id (a transaction)"
    )


def _is_of_values(error: Exception) -> bool:
    """Return whether the error's text may repeat a value."""
    return not isinstance(error, msgspec.ValidationError)


def _named(source: _Source) -> SourceTable | UserError:
    for name in (source.schema, source.table):
        if not is_name(name):
            return UserError(NOT_A_CHANGE, f"a name has 1 to {MAX_NAME_BYTES} bytes and no NUL", "/source")
    return SourceTable(source.schema, source.table)
