"""Checks the rights that a role needs for a temporary copy of a table, and builds the missing GRANTs."""

from typing import Final

from psycopg2 import sql
from psycopg2.extensions import connection

from services.writer.model.targets import Target
from services.writer.postgres.database import Database

_RIGHTS: Final = """
    SELECT current_user::text, current_database()::text,
           has_database_privilege(current_database(), 'TEMPORARY'),
           coalesce((SELECT has_schema_privilege(n.oid, 'USAGE') FROM pg_namespace n
                     WHERE n.nspname = %s), true),
           coalesce((SELECT has_table_privilege(c.oid, 'SELECT') FROM pg_class c
                     JOIN pg_namespace n ON n.oid = c.relnamespace
                     WHERE n.nspname = %s AND c.relname = %s), true)
"""


class UntriedError(Exception):
    """A table cannot be tried with events; the text has the reason and the fix."""


def require_rights(conn: connection, database: Database, target: Target, *, copied: bool) -> None:
    """Raise `UntriedError` with the missing rights unless the role may create the copy.

    `copied`: the table exists, and its definition is read.
    """
    with conn.cursor() as cursor:
        cursor.execute(_RIGHTS, (target.schema, target.schema, target.table))
        role, dbname, may_make, may_use, may_read = cursor.fetchone() or ("", "", True, True, True)
    schema, table = sql.Identifier(target.schema), sql.Identifier(target.schema, target.table)
    missing: list[tuple[str, sql.Composable]] = []
    if not may_make:
        missing.append(("TEMPORARY", sql.SQL("DATABASE {}").format(sql.Identifier(dbname))))
    if copied and not may_use:
        missing.append(("USAGE", sql.SQL("SCHEMA {}").format(schema)))
    if copied and not may_read:
        missing.append(("SELECT", table))
    if not missing:
        return
    grants = [
        sql.SQL("GRANT {} ON {} TO {};").format(sql.SQL(right), on, sql.Identifier(role)).as_string(conn)
        for right, on in missing
    ]
    lacks = ", ".join(f"{right} on {on.as_string(conn)}" for right, on in missing)
    raise UntriedError(f"database {database.name}: role {role} lacks {lacks}: {' '.join(grants)}")
