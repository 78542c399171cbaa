"""The columns of the lake's tables: those of the landing table, dates, and typed properties."""

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from shared import landing_rows
from shared.lake.lake_tables import DATE, MONTH, Kind, Partitioning

#: The types of typed columns.
KINDS: Final = {
    Kind.STRING: pa.string(),
    Kind.INTEGER: pa.int64(),
    Kind.NUMBER: pa.float64(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.TIME: pa.timestamp("us", "UTC"),
}
_KIND_OF: Final = {str(each): kind for kind, each in KINDS.items()}


def base_schema(partitioning: Partitioning) -> pa.Schema:
    """Return the columns of a new table without typed properties."""
    dates = [DATE, *([MONTH] if partitioning is Partitioning.MONTH else [])]
    return pa.schema([*landing_rows.COLUMNS, *(pa.field(name, pa.date32()) for name in dates)])


def kind_of(column_type: pa.DataType) -> Kind | None:
    """Return the kind of an existing column's type; None for a type that no typed column has."""
    return _KIND_OF.get(str(column_type))


def typed_fields(columns: Iterable[tuple[str, Kind]]) -> list[pa.Field]:
    """Return the fields of typed columns."""
    return [pa.field(name, KINDS[kind]) for name, kind in columns]
