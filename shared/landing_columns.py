"""Defines the landing table's columns, the source of the DDL, COPY, the audit's queries and the docs.

A column that was added later `is_later`: tables created without it get it by ADD COLUMN,
so it is nullable or has a constant default, and no row is rewritten.
"""

from enum import Enum, auto
from typing import Final, NamedTuple

from shared import change_table


class Part(Enum):
    """The part of a row that a column belongs to."""

    KEY = auto()
    CONTENT = auto()  # written by the sender: equal in a repeat of the event
    ORIGIN = auto()  # time and place of arrival: may differ in a repeat
    RECEIPT = auto()  # position on Kafka


class Column(NamedTuple):
    """A column with Postgres' short name of its type, and the source of its values for the docs."""

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
#: The default schemas of a database that events may be written to.
OPEN_SCHEMAS: Final = (SCHEMA, "public")
#: Schemas of Postgres and Onramp, which no configuration can open.
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
    Column("_topic", "text", "the topic on Kafka", Part.RECEIPT),
    Column("_partition", "integer", "the partition of the topic", Part.RECEIPT),
    Column("_offset", "bigint", "the offset in the partition", Part.RECEIPT),
    Column(PAYLOAD, "jsonb", "`payload`", Part.CONTENT),
)


def is_closed(schema: str) -> bool:
    """Return whether `schema` belongs to Postgres or Onramp, so that no message may write to it."""
    return schema in _CLOSED or schema.startswith(_CLOSED_PREFIX)


def named(*parts: Part) -> tuple[str, ...]:
    """Return the names of the columns of these parts, in order."""
    return tuple(c.name for c in COLUMNS if c.part in parts)


#: Base types that truncate a column's values without an error.
_COARSE: Final = {
    "text": frozenset({"name", "char"}),
    "timestamptz": frozenset({"date", "time", "timetz"}),
    "integer": frozenset({"float4", "bool", "char"}),
    "bigint": frozenset({"float4", "bool", "char"}),
}
_TIMES: Final = frozenset({"timestamptz", "timestamp"})
_TIME_DIGITS: Final = 6
#: Types that cut or pad blanks; among the text columns only a version may end with blanks.
_PADDED: Final = frozenset({"bpchar", "varchar"})
_VERSION: Final = "_version"
#: `atttypmod` of a `varchar(32)`: the longest version fits.
_VERSION_MODIFIER: Final = 36


def changes_silently(column: Column, base_type: str, modifier: int) -> bool:
    """Return whether a table's `column` would change Onramp's values without an error.

    `base_type`, `modifier`: the column's type in `pg_catalog`, with domains resolved.
    """
    if base_type in _COARSE.get(column.type, ()):
        return True
    if column.type == "timestamptz":
        return base_type in _TIMES and 0 <= modifier < _TIME_DIGITS
    if column.name == _VERSION and base_type in _PADDED:
        return base_type == "bpchar" or 0 <= modifier < _VERSION_MODIFIER
    return False
