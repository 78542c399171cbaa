"""Describes a table by the database's catalogue: its columns, its keys, and whether events can land there.

Looked up once a minute in each process.  Before a row is parked or a field is dropped because of
a cached description the catalogue is asked again, so DDL while the writer runs does no harm.
"""

from dataclasses import dataclass
from typing import Any, Final

from psycopg2.extensions import connection

from services.writer.columns.column_types import Column, Type
from services.writer.model.targets import Target
from services.writer.postgres.answer_cache import SECONDS, AnswerCache
from services.writer.postgres.database import Database

_TABLE: Final = """
    SELECT c.oid, c.relkind,
           EXISTS (SELECT FROM pg_rewrite r WHERE r.ev_class = c.oid AND r.ev_type IN ('2', '3'))
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s
"""
#: A domain's values are checked as its base type's; the innermost declared length or precision applies.
_COLUMNS: Final = """
    WITH RECURSIVE base AS (
        SELECT a.attnum, a.atttypid AS type, a.atttypmod AS modifier
        FROM pg_attribute a WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
        UNION ALL
        SELECT b.attnum, t.typbasetype, CASE WHEN b.modifier = -1 THEN t.typtypmod ELSE b.modifier END
        FROM base b JOIN pg_type t ON t.oid = b.type WHERE t.typtype = 'd'
    )
    SELECT a.attname, a.attidentity = 'a' OR a.attgenerated <> '',
           a.atthasdef OR a.attidentity <> '', format_type(a.atttypid, a.atttypmod),
           n.nspname, t.typname, t.typcategory, b.modifier, en.nspname, e.typname, e.typcategory
    FROM base b
    JOIN pg_attribute a ON a.attrelid = %s AND a.attnum = b.attnum
    JOIN pg_type t ON t.oid = b.type AND t.typtype <> 'd'
    JOIN pg_namespace n ON n.oid = t.typnamespace
    LEFT JOIN pg_type e0 ON t.typcategory = 'A' AND e0.oid = t.typelem
    LEFT JOIN pg_type e ON e.oid = CASE WHEN e0.typtype = 'd' THEN e0.typbasetype ELSE e0.oid END
    LEFT JOIN pg_namespace en ON en.oid = e.typnamespace
    ORDER BY a.attnum
"""
_KEYS: Final = """
    SELECT x.relname, i.indisprimary, i.indimmediate,
           array(SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY k (attnum, place)
                 JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
                 WHERE k.place <= i.indnkeyatts ORDER BY k.place)
    FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
    WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
    ORDER BY i.indisprimary DESC, x.relname
"""
#: Tables and partitioned tables.  A view or a foreign table cannot promise a key.
_KINDS: Final = frozenset({"r", "p"})
#: The column that takes an event's own id.
ID: Final = "_id"


@dataclass(frozen=True, slots=True)
class Key:
    """A unique index, by which an event is told from its repeat; `immediate`: it is not deferrable."""

    index: str
    columns: tuple[str, ...]
    immediate: bool


@dataclass(frozen=True, slots=True)
class Table:
    """A table as the catalogue described it.

    `keys`: the primary key, then unique indexes over `_id` alone.  `is_table`: not a view or a
    foreign table.  `has_rules`: rewrite rules, with which Postgres does not allow ON CONFLICT.
    """

    columns: dict[str, Column]
    keys: tuple[Key, ...]
    is_table: bool
    has_rules: bool


_known: Final[AnswerCache[tuple[str, str, str], Table]] = AnswerCache()


def describe(conn: connection, database: Database, target: Target) -> Table | None:
    """Ask the database for the table and cache it; None when none has exactly this name.  Three queries."""
    name = (database.dsn, target.schema, target.table)
    table = _look_up(conn, target)
    if table is None:
        _known.forget(name)
    else:
        _known.put(name, table)
    return table


def known(database: Database, target: Target, within: float = SECONDS) -> Table | None:
    """Return the cached description unless it is older than `within` seconds."""
    return _known.get((database.dsn, target.schema, target.table), within)


def _look_up(conn: connection, target: Target) -> Table | None:
    with conn.cursor() as cursor:
        cursor.execute(_TABLE, (target.schema, target.table))
        row = cursor.fetchone()
        if row is None:
            return None
        oid, kind, has_rules = row
        cursor.execute(_COLUMNS, (oid, oid))
        columns = {row[0]: _column(row) for row in cursor.fetchall()}
        cursor.execute(_KEYS, (oid,))
        keys = [
            Key(name, tuple(names), immediate)
            for name, primary, immediate, names in cursor.fetchall()
            if primary or names == [ID]
        ]
    return Table(columns, tuple(keys), kind in _KINDS, has_rules)


def _column(row: tuple[Any, ...]) -> Column:
    name, is_generated, has_default, declared, *types, modifier = (*row[:7], *row[8:], row[7])
    schema, base, category, element_schema, element, element_category = types
    inner = None if element is None else Type(element_schema, element, element_category, modifier)
    return Column(
        name, is_generated, has_default, declared, type=Type(schema, base, category, modifier, element=inner)
    )
