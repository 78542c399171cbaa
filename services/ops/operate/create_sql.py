"""Creates the tables that event types require, and adds columns; never drops or retypes one.

It uses its own connection with the role that owns tables, one table at a time (an advisory lock), and a short
`lock_timeout`, so that no queue behind it blocks readers or writers of the table.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple

import psycopg2
from psycopg2.extensions import cursor

from services.ops.operate.destinations_sql import Fact, Wanted
from services.ops.operate.holds_sql import PATIENCE_SECONDS
from shared.contracts.tables import quoted, statements_for
from shared.errors import DATABASE_UNAVAILABLE, InfrastructureError
from shared.postgres.answering import answering
from shared.postgres.connect import connect
from shared.postgres.failures import NO_SUCH_DATABASE, failure

#: The writer's advisory lock for creating landing tables.
_LOCK: Final = 7_203_155_002
_OPTIONS: Final = (
    "-c search_path=pg_catalog,pg_temp -c lock_timeout=2000 -c statement_timeout=30000 -c timezone=UTC"
)
_COLUMNS: Final = """
    SELECT a.attname::text FROM pg_attribute a
    JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s AND a.attnum > 0 AND NOT a.attisdropped
"""
_CONNECTION: Final = "08"
#: The role, whether it may create tables in the schema, and whether the table exists and belongs to it.
_MAY_CREATE: Final = """
    SELECT current_user::text, has_schema_privilege(n.oid, 'CREATE') AND has_schema_privilege(n.oid, 'USAGE'),
        c.oid IS NOT NULL, coalesce(pg_has_role(c.relowner, 'USAGE'), false)
    FROM (SELECT oid FROM pg_namespace WHERE nspname = %s) n
    LEFT JOIN (SELECT k.oid, k.relowner FROM pg_class k JOIN pg_namespace s ON s.oid = k.relnamespace
               WHERE s.nspname = %s AND k.relname = %s) c ON true
"""


class Owner(NamedTuple):
    """The role that owns tables of a database, by its DSN."""

    database: str
    dsn: str


class Ddl(NamedTuple):
    """A table's statements, and why they were not executed (empty if they were)."""

    statements: list[str]
    problem: str = ""


def planned(owner: Owner, wanted: Wanted, writer: str) -> list[str]:
    """Return the statements that the table needs. Raises `InfrastructureError`."""
    try:
        with _connected(owner) as asking:
            return _statements(asking, wanted, writer)
    except psycopg2.Error as e:
        raise _unavailable(owner, e) from None


def creation_facts(owner: Owner, wanted: Wanted) -> list[Fact]:
    """Return the facts that must hold to create the table, or to add columns to it.

    Raises `InfrastructureError`.
    """
    try:
        with _connected(owner) as asking:
            asking.execute(_MAY_CREATE, (wanted.schema, wanted.schema, wanted.table))
            found = asking.fetchone()
    except psycopg2.Error as e:
        raise _unavailable(owner, e) from None
    is_open = wanted.schema in wanted.open_schemas
    text = f"the writer may write to the schema {wanted.schema}"
    facts = [Fact(is_open, text, "" if is_open else f"-- add {wanted.schema} to `schemas` of the database")]
    schema = quoted(wanted.schema)
    if found is None:
        return [*facts, Fact(False, f"the schema {wanted.schema} exists", f"CREATE SCHEMA {schema};")]
    role, may_create, has_table, is_owner = found
    facts.append(Fact(True, f"the schema {wanted.schema} exists"))
    if has_table:
        sql = "" if is_owner else f"ALTER TABLE {wanted.name} OWNER TO {quoted(role)};"
        return [*facts, Fact(is_owner, f"the role {role} owns the table {wanted.name}", sql)]
    sql = "" if may_create else f"GRANT CREATE, USAGE ON SCHEMA {schema} TO {quoted(role)};"
    return [*facts, Fact(may_create, f"the role {role} may create tables in {wanted.schema}", sql)]


def carry_out(owner: Owner, wanted: Wanted, writer: str) -> Ddl:
    """Execute the table's statements, all or none; `writer` is the role that lands.

    Raises:
        InfrastructureError: the database cannot be reached.
    """
    statements: list[str] = []
    try:
        with _connected(owner) as doing:
            statements = _statements(doing, wanted, writer)
            if statements:
                doing.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                statements = _statements(doing, wanted, writer)  # another process may have been first
            for statement in statements:
                doing.execute(statement)
    except psycopg2.Error as e:
        if not e.pgcode or e.pgcode.startswith(_CONNECTION) or e.pgcode == NO_SUCH_DATABASE:
            raise _unavailable(owner, e) from None
        return Ddl(statements, f"{wanted.name}: SQLSTATE {e.pgcode}, nothing was changed; run as its owner")
    return Ddl(statements)


def role_of(of: Owner) -> str:
    """Return the role of a DSN. Raises `InfrastructureError`."""
    try:
        with _connected(of) as asking:
            asking.execute("SELECT current_user::text")
            return str((asking.fetchone() or ("",))[0])
    except psycopg2.Error as e:
        raise _unavailable(of, e) from None


def _statements(asking: cursor, wanted: Wanted, writer: str) -> list[str]:
    asking.execute(_COLUMNS, (wanted.schema, wanted.table))
    there = {name for (name,) in asking.fetchall()}
    asking.execute("SELECT current_user::text")
    grant_to = "" if asking.fetchone() == (writer,) else writer
    return statements_for(wanted.schema, wanted.table, wanted.columns, there=there, grant_to=grant_to)


@contextmanager
def _connected(owner: Owner) -> Iterator[cursor]:
    open_ = partial(connect, owner.dsn, name="onramp-ddl", options=_OPTIONS)
    with (
        answering(f"database {owner.database}", owner.dsn, open_, PATIENCE_SECONDS) as conn,
        conn,
        conn.cursor() as cur,
    ):
        yield cur


def _unavailable(owner: Owner, error: psycopg2.Error) -> InfrastructureError:
    return InfrastructureError(
        DATABASE_UNAVAILABLE, f"no table was created: {failure(f'database {owner.database}', error)}"
    )
