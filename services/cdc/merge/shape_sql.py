"""Creates and alters public tables to match the schema history, each change in its own transaction.

No column with values is dropped: a column that the source no longer has stays, and is null in new rows.  A
table that another program created is not touched. A table that another program changed is reported before.
"""

from collections.abc import Iterator
from typing import Any, Final

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import connection

from services.cdc.merge import public_table_drift_sql
from services.cdc.merge.public_table import OWN, PublicTable
from services.cdc.merge.public_table_drift_sql import Shape
from services.cdc.merge.state_sql import Position
from services.cdc.merge.suspended import SuspendedError

_KEY: Final = """
    SELECT c.conname::text, array(SELECT a.attname::text FROM unnest(c.conkey) WITH ORDINALITY k (n, i)
                                  JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.n
                                  ORDER BY k.i)
    FROM pg_constraint c WHERE c.conrelid = to_regclass(%s) AND c.contype = 'p'
"""
#: A short lock timeout: a long reader of the table would otherwise make all others wait behind this lock.
_PATIENCE: Final = "SET LOCAL lock_timeout = '2s'"


def ensure(conn: connection, table: PublicTable, position: Position, *, begins_empty: bool) -> bool:
    """Create or alter `table` to match the history; return whether it matched already.

    Runs in the caller's transaction, which has locked its position.  Raises `SuspendedError`, psycopg2's
    errors.
    """
    now = public_table_drift_sql.columns_now(conn, table)
    if not begins_empty:
        public_table_drift_sql.require_as_left(table, position.stored_shape, now)
    if is_whole(conn, table, position.stored_shape, now):
        return True
    change(conn, table, position.stored_shape, now)
    return False


def is_whole(conn: connection, table: PublicTable, stored: Shape | None, now: Shape) -> bool:
    """Return whether the table exists with these columns and this key, and its shape is stored."""
    return (
        now.oid is not None
        and public_table_drift_sql.is_as_stored(table, stored, now)
        and not [*_altered(conn, table, now)]
    )


def change(conn: connection, table: PublicTable, stored: Shape | None, now: Shape) -> None:
    """Create or alter the table, and store its shape."""
    is_ours = stored is not None and (stored.place, stored.oid) == (now.place, now.oid)
    if now.oid is not None and not is_ours and not {name for name, _ in OWN} <= now.columns.keys():
        raise SuspendedError(
            f"there is a table {table.schema}.{table.name} already that is not Onramp's: rename it, or "
            "publish the source in another schema (publish)"
        )
    changes = [_creation(table)] if now.oid is None else [*_altered(conn, table, now)]
    with conn.cursor() as cursor:
        if changes:
            cursor.execute(_PATIENCE)
        for statement in changes:
            try:
                cursor.execute(statement)
            except (psycopg2.DataError, psycopg2.IntegrityError, psycopg2.ProgrammingError) as e:
                raise SuspendedError(
                    f"the public table cannot be changed as its source was (SQLSTATE {e.pgcode}): it keeps "
                    "its rows until the agent has had the table re-snapshotted; if that does not come, run "
                    f"onramp sources resync {table.source.source}"
                ) from None
    public_table_drift_sql.keep(conn, table, stored)


def _creation(table: PublicTable) -> sql.Composed:
    columns = [*((n, t.declared) for n, t in table.types.items()), *OWN]
    definitions = [_definition(name, declared) for name, declared in columns]
    if table.key:
        definitions.append(_primary_key(table))
    return sql.SQL("CREATE SCHEMA IF NOT EXISTS {}; CREATE TABLE {} ({})").format(
        sql.Identifier(table.schema), table.identifier, sql.SQL(", ").join(definitions)
    )


def _altered(conn: connection, table: PublicTable, now: Shape) -> Iterator[sql.Composed]:
    alter = sql.SQL("ALTER TABLE {} ").format(table.identifier)
    for name, declared in (*((n, kind.declared) for n, kind in table.types.items()), *OWN):
        if name not in now.columns:
            yield alter + sql.SQL("ADD COLUMN ") + _definition(name, declared)
        elif name in table.types and now.columns[name].type != declared:
            yield alter + sql.SQL("ALTER COLUMN {0} TYPE {1} USING {0}::text::{1}").format(
                sql.Identifier(name), sql.SQL(declared)
            )
    found = _key(conn, table)
    if (tuple(found[1]) if found else ()) != table.key:
        if found:
            yield alter + sql.SQL("DROP CONSTRAINT {}").format(sql.Identifier(found[0]))
            # Postgres keeps NOT NULL, and a column that left the key can be null in new rows.
            for name in set(found[1]) - set(table.key):
                yield alter + sql.SQL("ALTER COLUMN {} DROP NOT NULL").format(sql.Identifier(name))
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
