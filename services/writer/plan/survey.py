"""Surveys a database before a plan: the DDL of `onramp apply`, and the effects that cannot be tried.

The database is not changed: statements run on a temporary copy and are rolled back.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import connection

from services.writer.columns import catalog
from services.writer.model.targets import Target
from services.writer.persist.table_rights import UntriedError, require_rights
from services.writer.plan.rules import TableName
from services.writer.postgres.database import Database
from services.writer.postgres.error_faults import translate
from services.writer.postgres.pool import connected
from shared.contracts.tables import FieldColumn, add_column, statements_for

#: The pool's roles: the role that lands events, and the role that owns tables.
LANDS: Final = "plan"
_OWNS: Final = "ddl"
_LIMITS: Final = "SET LOCAL lock_timeout = '200ms'; SET LOCAL statement_timeout = '20s'"
_ROLE: Final = "SELECT current_user::text"
_SAMPLE: Final = sql.Identifier("pg_temp", "onramp_survey")
_COPY: Final = "CREATE TEMPORARY TABLE {copy} (LIKE {table} INCLUDING ALL)"
_FILE: Final = "SELECT pg_relation_filenode('pg_temp.onramp_survey'::regclass)"
_UNTRIED: Final = """
    WITH t AS (
        SELECT c.oid, c.relkind, c.relrowsecurity
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = %s AND c.relname = %s
    )
    SELECT 'foreign key ' || conname FROM pg_constraint, t WHERE conrelid = t.oid AND contype = 'f'
    UNION ALL
    SELECT 'trigger ' || tgname FROM pg_trigger, t WHERE tgrelid = t.oid AND NOT tgisinternal
    UNION ALL
    SELECT 'rule ' || rulename FROM pg_rewrite, t WHERE ev_class = t.oid AND rulename <> '_RETURN'
    UNION ALL
    SELECT 'keys that are there already: ' || x.relname
    FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid, t WHERE i.indrelid = t.oid AND i.indisunique
    UNION ALL SELECT 'row-level security' FROM t WHERE t.relrowsecurity
    UNION ALL SELECT 'whether each row has a partition' FROM t WHERE t.relkind = 'p'
    ORDER BY 1
"""


class Ddl(NamedTuple):
    """A statement that `onramp apply` would run, its lock, and whether it rewrites the table.

    `rewrites` was observed on a copy of the table; None if no copy was possible.
    """

    table: str
    sql: str
    lock: str
    rewrites: bool | None


@dataclass(slots=True, kw_only=True)
class Survey:
    """The survey of one database.  `out`: the reason why it could not be queried."""

    ddl: list[Ddl] = field(default_factory=list)
    adds: dict[TableName, tuple[FieldColumn, ...]] = field(default_factory=dict)
    untried: list[str] = field(default_factory=list)
    out: str = ""


def survey(
    database: Database,
    wanted: Mapping[TableName, tuple[FieldColumn, ...]],
    tables: Collection[TableName],
) -> Survey:
    """Query `database`; `wanted`: its tables with `create: true` and their columns, `tables`: all its tables.

    Raise `InfrastructureError` if it cannot be reached.
    """
    result = Survey()
    with connected(database, LANDS) as conn:
        try:
            with conn.cursor() as cursor:
                cursor.execute(_LIMITS)
            for table, columns in sorted(wanted.items()):
                _add_ddl(conn, database, table, columns, result)
            for table in sorted(tables):
                result.untried += _cannot_try(conn, table)
        except psycopg2.Error as e:
            raise translate(e, database) from None
        finally:
            if not conn.closed:
                conn.rollback()
    return result


def _add_ddl(
    conn: connection, database: Database, name: TableName, columns: tuple[FieldColumn, ...], result: Survey
) -> None:
    table = catalog.describe(conn, database, Target(*name, typed=True))
    there = set(table.columns) if table else set[str]()
    role = _role(conn)
    grant_to = role if database.ddl_dsn and _owner(database) != role else ""
    statements = statements_for(name.schema, name.table, columns, there=there, grant_to=grant_to)
    if not statements:
        return
    shown = f"{name.schema}.{name.table}"
    result.adds[name] = columns
    if table is None:
        lock = f"no existing table: {shown} is new"
        result.ddl += [Ddl(str(name), each, lock, rewrites=False) for each in statements]
        return
    missing = [each for each in columns if each.name not in there]
    rewrites = _rewrites(conn, database, name, missing)
    lock = f"ACCESS EXCLUSIVE on {shown}, briefly: its readers and writers wait"
    result.ddl += [
        Ddl(str(name), each, lock, rewrote) for each, rewrote in zip(statements, rewrites, strict=True)
    ]


def _rewrites(
    conn: connection, database: Database, name: TableName, missing: list[FieldColumn]
) -> list[bool | None]:
    """Return for each column whether its addition rewrote a copy of the table."""
    try:
        require_rights(conn, database, Target(*name, typed=True), copied=True)
    except UntriedError:
        return [None] * len(missing)
    rewrites: list[bool | None] = []
    with conn.cursor() as cursor:
        cursor.execute("SAVEPOINT onramp_survey")
        cursor.execute(sql.SQL(_COPY).format(copy=_SAMPLE, table=sql.Identifier(name.schema, name.table)))
        for column in missing:
            cursor.execute(_FILE)
            before = cursor.fetchone()
            cursor.execute(add_column("pg_temp", "onramp_survey", column))
            cursor.execute(_FILE)
            rewrites.append(cursor.fetchone() != before)
        cursor.execute("ROLLBACK TO SAVEPOINT onramp_survey")
    return rewrites


def _cannot_try(conn: connection, name: TableName) -> list[str]:
    with conn.cursor() as cursor:
        cursor.execute(_UNTRIED, (name.schema, name.table))
        return [f"{name}: {what}" for (what,) in cursor.fetchall()]


def _owner(database: Database) -> str:
    with connected(database, _OWNS) as conn:
        return _role(conn)


def _role(conn: connection) -> str:
    with conn.cursor() as cursor:
        cursor.execute(_ROLE)
        return str((cursor.fetchone() or ("",))[0])
