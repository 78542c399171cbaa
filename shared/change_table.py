"""The landing table of a source's changes: its schema, its columns and its name.

The writer appends to it what it reads of a source's topics; the modeler merges it into the public table.
"""

from hashlib import sha256
from typing import Final, NamedTuple

import orjson

#: No message may write to it: a change that no source sent would become a row.
SCHEMA: Final = "landing"
CHANGE: Final = "change"
#: Said in the transaction that lands changes.
CHANNEL: Final = "onramp_landing"
#: What Debezium tells of transactions: their BEGIN, and their END with the counts of their changes.
TRANSACTION: Final = "transaction"
_SEPARATOR: Final = "__"
#: No name without a cut has it.
_CUT: Final = "~"
_MAX_NAME_BYTES: Final = 63
_DIGITS: Final = 12


class Column(NamedTuple):
    """A column, its type by Postgres' short name."""

    name: str
    type: str

    @property
    def definition(self) -> str:
        """Return the definition for CREATE TABLE."""
        return f"{self.name} {self.type} NOT NULL"


COLUMNS: Final = (Column("_partition", "integer"), Column("_offset", "bigint"), Column(CHANGE, "jsonb"))


def name_of(source: str, schema: str, table: str) -> str:
    """Return the name of the landing table of a source's table: `<source>__<schema>__<table>`.

    A name that would be too long, or that another table could have too, is cut and has a digest.
    """
    parts = (source, schema, table)
    plain = _SEPARATOR.join(parts)
    if len(plain.encode()) <= _MAX_NAME_BYTES and all(map(_is_plain, parts)):
        return plain
    digest = sha256(orjson.dumps(parts)).hexdigest()[:_DIGITS]
    head = plain.encode()[: _MAX_NAME_BYTES - _DIGITS - len(_CUT)].decode(errors="ignore")
    return f"{head}{_CUT}{digest}"


def transactions_of(source: str) -> str:
    """Return the name of the table of a source's transactions; no table of it has that name."""
    return f"{source}{_SEPARATOR}{TRANSACTION}"


def _is_plain(part: str) -> bool:
    return not (_SEPARATOR in part or _CUT in part or part.startswith("_") or part.endswith("_"))
