"""The columns that identify a table's row, as SQL: its replica identity, else its primary key.

Each query is over a row of `pg_class`, which `alias` names.  A deferrable key does not identify a row,
because two rows can have it during a transaction.  Neither does a key that some partitions lack, or an
INCLUDE column.
"""

from typing import Final

_OF_INDEX: Final = """
    SELECT {what} FROM pg_index i
    WHERE i.indrelid = {alias}.oid AND i.indimmediate AND i.indisvalid
      AND CASE {alias}.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END
"""
_OF_COLUMNS: Final = """(
    SELECT {what} FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k (attnum, place)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum WHERE k.place <= i.indnkeyatts)
"""


def names(alias: str) -> str:
    """Return SQL for the columns' names in the key's order; NULL without a key."""
    what = _OF_COLUMNS.format(what="array_agg(a.attname::text ORDER BY k.place)")
    return _OF_INDEX.format(what=what, alias=alias)


def numbers(alias: str) -> str:
    """Return SQL for the columns' numbers in the key's order, as one text; NULL without a key."""
    what = _OF_COLUMNS.format(what="string_agg(k.attnum::text, ' ' ORDER BY k.place)")
    return _OF_INDEX.format(what=what, alias=alias)


def lacks(alias: str) -> str:
    """Return the condition that a published table without a key accepts only inserts."""
    return f"({alias}.relreplident = 'n' OR ({alias}.relreplident <> 'f' AND ({names(alias)}) IS NULL))"
