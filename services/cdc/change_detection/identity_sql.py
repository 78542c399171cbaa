"""By which columns a table's row is told, as SQL: those of its replica identity, else of its primary key.

Each is a query over a row of `pg_class`, which `alias` names.  A key that is checked at the end of a
transaction tells no row: two have it meanwhile.  Nor does one that not all partitions have, or an INCLUDE.
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
    """Return what gives the columns' names in the key's order; NULL without a key."""
    what = _OF_COLUMNS.format(what="array_agg(a.attname::text ORDER BY k.place)")
    return _OF_INDEX.format(what=what, alias=alias)


def numbers(alias: str) -> str:
    """Return what gives the columns' numbers in the key's order, as one text; NULL without a key."""
    what = _OF_COLUMNS.format(what="string_agg(k.attnum::text, ' ' ORDER BY k.place)")
    return _OF_INDEX.format(what=what, alias=alias)


def lacks(alias: str) -> str:
    """Return the condition that its rows can be inserted alone once they are published."""
    return f"({alias}.relreplident = 'n' OR ({alias}.relreplident <> 'f' AND ({names(alias)}) IS NULL))"
