"""Derives the DDL of an event type's own table from its schema.

Column types never lose a value: integers are `bigint`, other numbers `numeric`, texts `text` unless their
format is a type of Postgres, and values that are nested or of several types are `jsonb`. Onramp's own columns
come first: `_id` is the key, which identifies a repeat, and the receipt is the event's position on Kafka.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from shared import landing_columns
from shared.contracts.object_fields import fields_of, required_of
from shared.postgres.quoting import identifier

_MAX_BYTES: Final = 63
_TYPES: Final = {"integer": "bigint", "number": "numeric", "string": "text", "boolean": "boolean"}
_FORMATS: Final = {"date-time": "timestamptz", "date": "date", "uuid": "uuid"}
_OWN: Final = tuple(c for c in landing_columns.COLUMNS if c.name != landing_columns.PAYLOAD)
OWN_NAMES: Final = frozenset(c.name for c in _OWN)


class FieldColumn(NamedTuple):
    """A column for a field of the payload."""

    name: str
    type: str
    is_required: bool = False
    comment: str = ""


def quoted(name: str) -> str:
    """Return a quoted SQL identifier for any name.

    Raises:
        ValueError: Postgres would cut it, or cannot store it.
    """
    if not 0 < len(name.encode("utf-8", "replace")) <= _MAX_BYTES or "\0" in name:
        raise ValueError(f"a name in Postgres has 1 to {_MAX_BYTES} bytes and no NUL character")
    return identifier(name)


def columns_of(schema: Mapping[str, Any]) -> list[FieldColumn]:
    """Return a column for each field that the schema names, in the same order.

    Raises:
        ValueError: a field cannot be a column; the message has its place.
    """
    fields, required = fields_of(schema), required_of(schema)
    for place, name in enumerate(fields):
        _check(name, place)
    return [_column(name, _one_of(each), is_required=name in required) for name, each in fields.items()]


def field_type(schemas: Sequence[Any]) -> str:
    """Return the column type of a field whose values satisfy all of `schemas`."""
    return column_type(_one_of(schemas))


def _one_of(schemas: Sequence[Any]) -> Any:
    """Return the first of a field's schemas that determines the type of its column."""
    return next((each for each in schemas if column_type(each) != "jsonb"), schemas[0])


def _check(name: str, place: int) -> None:
    if name in OWN_NAMES:
        raise ValueError(f"field {place + 1} of the schema: Onramp fills the column {name} itself")
    try:
        quoted(name)
    except ValueError as e:
        raise ValueError(f"field {place + 1} of the schema: {e}") from None


def _column(name: str, schema: Any, *, is_required: bool) -> FieldColumn:
    if not isinstance(schema, Mapping):
        return FieldColumn(name, "jsonb")
    names = _type_names(schema)
    values = [each for each in names if each != "null"]
    kind = column_type(schema)
    # A field of any type may be null, as may a reference, which is not followed here.
    never_null = bool(values) and "null" not in names
    comment = schema.get("description")
    return FieldColumn(name, kind, is_required and never_null, comment if isinstance(comment, str) else "")


def column_type(schema: Any) -> str:
    """Return the column type for a field of this schema."""
    if not isinstance(schema, Mapping):
        return "jsonb"
    values = [each for each in _type_names(schema) if each != "null"]
    kind = _TYPES.get(values[0], "jsonb") if len(values) == 1 and isinstance(values[0], str) else "jsonb"
    return _FORMATS.get(str(schema.get("format")), kind) if kind == "text" else kind


def _type_names(schema: Mapping[str, Any]) -> list[Any]:
    types = schema.get("type")
    return [types] if isinstance(types, str) else types if isinstance(types, list) else []


def create_table(schema: str, table: str, columns: list[FieldColumn]) -> str:
    """Return the DDL of a table with these columns in addition to Onramp's own."""
    name = f"{quoted(schema)}.{quoted(table)}"
    lines = [c.definition for c in _OWN] + [
        f"{quoted(c.name)} {c.type}{' NOT NULL' if c.is_required else ''}" for c in columns
    ]
    remarks = [
        f"COMMENT ON COLUMN {name}.{quoted(c.name)} IS {_literal(c.comment)};" for c in columns if c.comment
    ]
    return "\n".join(["CREATE TABLE " + name + " (\n  " + ",\n  ".join(lines) + "\n);", *remarks])


def add_column(schema: str, table: str, column: FieldColumn) -> str:
    """Return the DDL that adds a column: nullable, so no row is read or rewritten."""
    return f"ALTER TABLE {quoted(schema)}.{quoted(table)} ADD COLUMN {quoted(column.name)} {column.type};"


def statements_for(
    schema: str, table: str, columns: Sequence[FieldColumn], *, there: Collection[str], grant_to: str
) -> list[str]:
    """Return the DDL that a table needs: the whole table, or its missing columns.

    `there`: its existing columns, none if it is missing; `grant_to`: the writer's role, if it does not
    own the table.
    """
    if there:
        return [add_column(schema, table, each) for each in columns if each.name not in there]
    grant = (
        f"GRANT INSERT, SELECT ON {quoted(schema)}.{quoted(table)} TO {quoted(grant_to)};" if grant_to else ""
    )
    return [create_table(schema, table, list(columns)), *([grant] if grant else [])]


def _literal(text: str) -> str:
    """Return a string constant with the same meaning for any `standard_conforming_strings`."""
    escaped = text.replace("\0", "").replace("\\", "\\\\").replace("'", "''")
    return f"E'{escaped}'"
