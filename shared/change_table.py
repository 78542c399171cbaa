"""Defines the landing table of a source's changes: its schema, columns and name.

The writer appends the records of a source's topics to it; the merger merges it into the public table.
"""

from hashlib import sha256
from typing import Final, NamedTuple

import orjson

from shared.postgres.names import MAX_NAME_BYTES

#: Closed to producers: otherwise a change that no source sent would become a row.
SCHEMA: Final = "landing"
CHANGE: Final = "change"
#: Notified in the transaction that lands changes.
CHANNEL: Final = "onramp_landing"
#: Debezium's transaction records: BEGIN, and END with the counts of changes.
TRANSACTION: Final = "transaction"
_SEPARATOR: Final = "__"
#: Marks a cut name; no other name has it.
_CUT: Final = "~"
_DIGITS: Final = 12


class Column(NamedTuple):
    """A column with Postgres' short name of its type."""

    name: str
    type: str

    @property
    def definition(self) -> str:
        """Return the definition for CREATE TABLE."""
        return f"{self.name} {self.type} NOT NULL"


COLUMNS: Final = (Column("_partition", "integer"), Column("_offset", "bigint"), Column(CHANGE, "jsonb"))


def name_of(source: str, schema: str, table: str) -> str:
    """Return the name of the landing table of a source's table: `<source>__<schema>__<table>`.

    A name that would be too long or ambiguous is cut and gets a digest.
    """
    parts = (source, schema, table)
    plain = _SEPARATOR.join(parts)
    if len(plain.encode()) <= MAX_NAME_BYTES and all(map(_is_plain, parts)):
        return plain
    digest = sha256(orjson.dumps(parts)).hexdigest()[:_DIGITS]
    head = plain.encode()[: MAX_NAME_BYTES - _DIGITS - len(_CUT)].decode(errors="ignore")
    return f"{head}{_CUT}{digest}"


def transactions_of(source: str) -> str:
    """Return the name of the table of a source's transactions; no captured table has that name."""
    return f"{source}{_SEPARATOR}{TRANSACTION}"


def _is_plain(part: str) -> bool:
    return not (_SEPARATOR in part or _CUT in part or part.startswith("_") or part.endswith("_"))
