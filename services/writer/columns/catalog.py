"""Describes a table from the database's catalog: its columns, its keys, and whether events can land there.

Each process caches a description for one minute.  Before a cached description causes a row to be parked or
a field to be dropped, the catalog is queried again.  Rows written under a cached description remain only if
the table's version is unchanged (`is_current`), so DDL is safe while the writer runs.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, NamedTuple

from psycopg2 import sql
from psycopg2.extensions import connection

from services.writer.columns.column_types import Column, Type
from services.writer.model.targets import Target
from services.writer.postgres.answer_cache import SECONDS, AnswerCache
from services.writer.postgres.database import Database

#: A number that differs after each change of the table's columns: the sum of the ids of the transactions
#: that wrote the columns' catalog rows.  ANALYZE, VACUUM and TRUNCATE do not change the sum.
_VERSION: Final = "(SELECT sum(xmin::text::bigint)::bigint FROM pg_attribute WHERE attrelid = {oid})"
_TABLE: Final = f"""
    SELECT c.oid, c.relkind,
           EXISTS (SELECT FROM pg_rewrite r WHERE r.ev_class = c.oid AND r.ev_type IN ('2', '3')),
           {_VERSION.format(oid="c.oid")}
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s
"""  # noqa: S608 - no value is part of it
_CURRENT: Final = f"SELECT to_regclass(%s)::oid, {_VERSION.format(oid='%s')}"
#: A column without a default of its own has that of its domain.
_COLUMNS: Final = """
    SELECT a.attname, a.attidentity = 'a' OR a.attgenerated <> '',
           a.atthasdef OR a.attidentity <> ''
               OR EXISTS (SELECT FROM pg_type d WHERE d.oid = a.atttypid AND d.typdefault IS NOT NULL),
           format_type(a.atttypid, a.atttypmod), a.atttypid, a.atttypmod
    FROM pg_attribute a WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
    ORDER BY a.attnum
"""
#: A type and its component: a domain's base type, an array's element type, a range's bound type.
_TYPE: Final = """
    t.oid, t.typnamespace, t.typname, t.typcategory, t.typtype = 'd' AS is_domain, t.typtypmod,
    CASE WHEN t.typtype = 'd' THEN t.typbasetype WHEN t.typcategory = 'A' THEN t.typelem
         WHEN t.typcategory = 'R' THEN (SELECT r.rngsubtype FROM pg_range r WHERE t.oid IN {ranges})
    END AS inner_oid
"""
_TYPES: Final = f"""
    WITH RECURSIVE part AS (
        SELECT {_TYPE} FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
        WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
        UNION
        SELECT {_TYPE} FROM part JOIN pg_type t ON t.oid = part.inner_oid
    )
    SELECT part.oid, n.nspname, typname, typcategory, is_domain, typtypmod, inner_oid
    FROM part JOIN pg_namespace n ON n.oid = typnamespace
"""  # noqa: S608 - no value is part of it
#: The first `server_version` that has multiranges.
_MULTIRANGES: Final = 140_000
#: Without keys of PRIMARY KEY (… WITHOUT OVERLAPS), for which Postgres rejects ON CONFLICT.
_KEYS: Final = """
    SELECT x.relname, i.indisprimary, i.indimmediate,
           array(SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY k (attnum, place)
                 JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
                 WHERE k.place <= i.indnkeyatts ORDER BY k.place)
    FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
    WHERE i.indrelid = %s AND i.indisunique AND NOT i.indisexclusion AND i.indisvalid
      AND i.indpred IS NULL AND i.indexprs IS NULL
    ORDER BY i.indisprimary DESC, x.relname
"""
#: `typcategory` of arrays.
_ARRAY: Final = "A"
#: Tables and partitioned tables.  A view or a foreign table cannot guarantee a key.
_KINDS: Final = frozenset({"r", "p"})
#: The column for an event's own id.
ID: Final = "_id"


@dataclass(frozen=True, slots=True)
class Key:
    """A unique index that identifies repeats of an event; `immediate`: the index is not deferrable."""

    index: str
    columns: tuple[str, ...]
    immediate: bool


@dataclass(frozen=True, slots=True)
class Table:
    """A table as the catalog described it.

    `keys`: the primary key, then unique indexes over `_id` alone.  `is_table`: not a view or a
    foreign table.  `has_rules`: the table has rewrite rules, so Postgres rejects ON CONFLICT.
    `version`: the table's oid, and a number that changes with its columns.
    """

    columns: dict[str, Column]
    keys: tuple[Key, ...]
    is_table: bool
    has_rules: bool
    _: KW_ONLY
    version: tuple[int, int] = (0, 0)


_known: Final[AnswerCache[tuple[str, str, str], Table]] = AnswerCache()


def describe(conn: connection, database: Database, target: Target) -> Table | None:
    """Describe the table and cache the result; return None if no table has this exact name.  Five queries."""
    name = (database.dsn, target.schema, target.table)
    table = _query(conn, target)
    if table is None:
        _known.forget(name)
    else:
        _known.put(name, table)
    return table


def known(database: Database, target: Target, within: float = SECONDS) -> Table | None:
    """Return the cached description unless it is older than `within` seconds."""
    return _known.get((database.dsn, target.schema, target.table), within)


def is_current(conn: connection, target: Target, table: Table) -> bool:
    """Return whether the table still matches its description.

    The result stays valid until the end of a transaction that wrote rows, because Postgres blocks DDL on a
    table that an open transaction has written to.  Costs one short query.
    """
    with conn.cursor() as cursor:
        name = sql.Identifier(target.schema, target.table).as_string(cursor)
        cursor.execute(_CURRENT, (name, table.version[0]))
        return cursor.fetchone() == table.version


def _query(conn: connection, target: Target) -> Table | None:
    """Query the catalog again until the table was the same before and after the queries.

    If the table was replaced meanwhile, the later queries would find no column.
    """
    with conn.cursor() as cursor:
        before = _table_row(cursor, target)
        while before is not None:
            table = _described(cursor, before, is_old=conn.server_version < _MULTIRANGES)
            after = _table_row(cursor, target)
            if table is not None and after == before:
                return table
            before = after
    return None


def _table_row(cursor: Any, target: Target) -> tuple[Any, ...] | None:
    cursor.execute(_TABLE, (target.schema, target.table))
    row: tuple[Any, ...] | None = cursor.fetchone()
    return row


def _described(cursor: Any, row: tuple[Any, ...], *, is_old: bool) -> Table | None:
    """Return the table of `row`; None if its types are not those of its columns, because one has changed."""
    oid, kind, has_rules, version = row
    cursor.execute(_COLUMNS, (oid,))
    attributes = cursor.fetchall()
    ranges = "(r.rngtypid)" if is_old else "(r.rngtypid, r.rngmultitypid)"
    cursor.execute(_TYPES.format(ranges=ranges), (oid,))
    types = {row[0]: _TypeRow(*row[1:]) for row in cursor.fetchall()}
    if not types.keys() >= {type_oid for *_, type_oid, _ in attributes}:
        return None
    columns = {
        name: Column(name, *about, type=_resolved(types, type_oid, modifier))
        for name, *about, type_oid, modifier in attributes
    }
    cursor.execute(_KEYS, (oid,))
    keys = [
        Key(name, tuple(names), immediate)
        for name, primary, immediate, names in cursor.fetchall()
        if primary or names == [ID]
    ]
    return Table(columns, tuple(keys), kind in _KINDS, has_rules, version=(oid, version))


class _TypeRow(NamedTuple):
    schema: str
    name: str
    category: str
    is_domain: bool
    modifier: int
    inner_oid: int | None


def _resolved(types: Mapping[int, _TypeRow], oid: int, modifier: int) -> Type:
    """Return a type with its domains resolved, and its component types likewise.

    An array's modifier belongs to its elements; a domain without a modifier has that of its base type.
    """
    row = types[oid]
    if row.is_domain and row.inner_oid is not None:
        return _resolved(types, row.inner_oid, row.modifier if modifier == -1 else modifier)
    element = None
    if row.inner_oid is not None:
        element = _resolved(types, row.inner_oid, modifier if row.category == _ARRAY else -1)
    return Type(row.schema, row.name, row.category, modifier, element=element)
