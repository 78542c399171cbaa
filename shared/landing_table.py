"""Defines the landing table's columns, from which DDL, COPY, the audit's queries and the docs are made.

A column that is added later `is_later`: tables that were made without it get it by ADD COLUMN,
so it is nullable or has a constant default, and no row is rewritten.
"""

from enum import Enum, auto
from typing import Final, NamedTuple

from shared import change_table


class Part(Enum):
    """What a column is about."""

    KEY = auto()
    CONTENT = auto()  # what the sender wrote: a repeat of the event has the same
    ORIGIN = auto()  # when and where it arrived: a repeat's may differ
    RECEIPT = auto()  # where Kafka holds it


class Column(NamedTuple):
    """A column: its type by Postgres' short name, and the source of its values, as the docs have it."""

    name: str
    type: str
    comes_from: str
    part: Part
    is_later: bool = False
    default: str = ""

    @property
    def definition(self) -> str:
        """Return the definition for CREATE TABLE and ADD COLUMN."""
        constraint = " PRIMARY KEY" if self.part is Part.KEY else "" if self.is_later else " NOT NULL"
        return f"{self.name} {self.type}{constraint}{f' DEFAULT {self.default}' if self.default else ''}"


SCHEMA: Final = "events"
#: The schemas of a database that events may be written to unless its operator configures others.
OPEN_SCHEMAS: Final = (SCHEMA, "public")
#: Schemas that no configuration can open: Postgres' own, and Onramp's.
_CLOSED: Final = frozenset({"information_schema", "onramp", "onramp_admin", change_table.SCHEMA})
_CLOSED_PREFIX: Final = "pg_"
PAYLOAD: Final = "payload"
COLUMNS: Final = (
    Column("_id", "text", "`metadata.id`", Part.KEY),
    Column("_event_name", "text", "`event_name`", Part.CONTENT),
    Column("_timestamp", "timestamptz", "`metadata.timestamp`", Part.CONTENT),
    Column("_version", "text", "`metadata.version`", Part.CONTENT),
    Column(
        "_received_at",
        "timestamptz",
        "the header `onramp-received-at`, else the record's own timestamp",
        Part.ORIGIN,
    ),
    Column("_topic", "text", "where Kafka holds it: the topic", Part.RECEIPT),
    Column("_partition", "integer", "its partition", Part.RECEIPT),
    Column("_offset", "bigint", "its offset there", Part.RECEIPT),
    Column(PAYLOAD, "jsonb", "`payload`", Part.CONTENT),
)


def is_closed(schema: str) -> bool:
    """Whether `schema` is Postgres' or Onramp's own, to which no message may write."""
    return schema in _CLOSED or schema.startswith(_CLOSED_PREFIX)


def named(*parts: Part) -> tuple[str, ...]:
    """Return the names of the columns that are of one of these parts, in order."""
    return tuple(c.name for c in COLUMNS if c.part in parts)


#: Base types that keep less of a column's values, and no error says so.
_COARSE: Final = {
    "text": frozenset({"name", "char"}),
    "timestamptz": frozenset({"date", "time", "timetz"}),
    "integer": frozenset({"float4", "bool", "char"}),
    "bigint": frozenset({"float4", "bool", "char"}),
}
_TIMES: Final = frozenset({"timestamptz", "timestamp"})
_TIME_DIGITS: Final = 6
#: Types that cut or add blanks; of the texts only a version may end with some.
_PADDED: Final = frozenset({"bpchar", "varchar"})
_VERSION: Final = "_version"
#: `atttypmod` of a `varchar(32)`: the longest version fits.
_VERSION_MODIFIER: Final = 36


def changes_silently(column: Column, base_type: str, modifier: int) -> bool:
    """Return whether a table's own `column` would change Onramp's values without an error.

    `base_type`, `modifier`: the type in `pg_catalog` that the table has there, without its domains.
    """
    if base_type in _COARSE.get(column.type, ()):
        return True
    if column.type == "timestamptz":
        return base_type in _TIMES and 0 <= modifier < _TIME_DIGITS
    if column.name == _VERSION and base_type in _PADDED:
        return base_type == "bpchar" or 0 <= modifier < _VERSION_MODIFIER
    return False
