"""Makes public tables as the schema history has them, each change in a transaction of its own.

Nothing that people may look at is dropped: a column that the source has no more stays, and is null in new
rows.  A table that somebody else made is not touched.
"""

from collections.abc import Iterator
from typing import Any, Final

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import connection

from services.elt.merge.held import HeldError
from services.elt.merge.public_table import OWN, PublicTable

_COLUMNS: Final = """
    SELECT a.attname::text, format_type(a.atttypid, a.atttypmod)
    FROM pg_attribute a WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped
"""
_KEY: Final = """
    SELECT c.conname::text, array(SELECT a.attname::text FROM unnest(c.conkey) WITH ORDINALITY k (n, i)
                                  JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.n
                                  ORDER BY k.i)
    FROM pg_constraint c WHERE c.conrelid = to_regclass(%s) AND c.contype = 'p'
"""
#: It waits for nobody for long: who reads the table for minutes would make all others wait behind it.
_PATIENCE: Final = "SET LOCAL lock_timeout = '2s'"


def ensure(conn: connection, table: PublicTable) -> None:
    """Make `table`, or change it to what the history has; commits.  Raises `HeldError`, psycopg2's errors."""
    with conn:
        change(conn, table)


def change(conn: connection, table: PublicTable) -> None:
    """Do so within the caller's transaction."""
    with conn.cursor() as cursor:
        cursor.execute(_COLUMNS, (table.identifier.as_string(conn),))
        columns = dict(cursor.fetchall())
        if columns and not {name for name, _ in OWN} <= columns.keys():
            raise HeldError(
                f"there is a table {table.schema}.{table.name} already that is not Onramp's: rename it, or "
                "publish the source in another schema (publish)"
            )
        changes = list(_altered(conn, table, columns)) if columns else [_creation(table)]
        if changes:
            cursor.execute(_PATIENCE)
        for statement in changes:
            try:
                cursor.execute(statement)
            except (psycopg2.DataError, psycopg2.errors.UniqueViolation, psycopg2.ProgrammingError) as e:
                raise HeldError(
                    f"the public table cannot be changed as its source was (SQLSTATE {e.pgcode}): it goes on "
                    "when the agent has had the table read again; if it does not, onramp sources rebuild "
                    f"{table.source}, or change it by hand"
                ) from None


def matches(conn: connection, table: PublicTable) -> bool:
    """Whether the table is there, with these columns and this key."""
    with conn.cursor() as cursor:
        cursor.execute(_COLUMNS, (table.identifier.as_string(conn),))
        columns = dict(cursor.fetchall())
    return bool(columns) and not list(_altered(conn, table, columns))


def _creation(table: PublicTable) -> sql.Composed:
    columns = [*((n, t.declared) for n, t in table.types.items()), *OWN]
    definitions = [_definition(name, declared) for name, declared in columns]
    if table.key:
        definitions.append(_primary_key(table))
    return sql.SQL("CREATE SCHEMA IF NOT EXISTS {}; CREATE TABLE {} ({})").format(
        sql.Identifier(table.schema), table.identifier, sql.SQL(", ").join(definitions)
    )


def _altered(conn: connection, table: PublicTable, columns: dict[str, str]) -> Iterator[sql.Composed]:
    alter = sql.SQL("ALTER TABLE {} ").format(table.identifier)
    for name, kind in table.types.items():
        if name not in columns:
            yield alter + sql.SQL("ADD COLUMN ") + _definition(name, kind.declared)
        elif columns[name] != kind.declared:
            yield alter + sql.SQL("ALTER COLUMN {0} TYPE {1} USING {0}::text::{1}").format(
                sql.Identifier(name), sql.SQL(kind.declared)
            )
    found = _key(conn, table)
    if (tuple(found[1]) if found else ()) != table.key:
        if found:
            yield alter + sql.SQL("DROP CONSTRAINT {}").format(sql.Identifier(found[0]))
        if table.key:
            yield alter + sql.SQL("ADD ") + _primary_key(table)


def _key(conn: connection, table: PublicTable) -> Any:
    with conn.cursor() as cursor:
        cursor.execute(_KEY, (table.identifier.as_string(conn),))
        return cursor.fetchone()


def _definition(name: str, declared: str) -> sql.Composed:
    return sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(declared))


def _primary_key(table: PublicTable) -> sql.Composed:
    return sql.SQL("PRIMARY KEY ({})").format(sql.SQL(", ").join(map(sql.Identifier, table.key)))
