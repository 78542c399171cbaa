"""Temporary copies of tables: rows are written as PERSIST lands them, evaluated, and rolled back.

A copy is created by `LIKE … INCLUDING ALL`, plus the columns that `onramp apply` would add.  It exists in a
transaction that is rolled back after about a second, because its read lock delays DDL on the table for that
long.  A default that takes the next value of a sequence gets a sequence of its own, because a rollback does
not return sequence values.
"""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import psycopg2
import pyarrow as pa
from psycopg2 import sql
from psycopg2.extensions import connection

from services.writer.columns import catalog
from services.writer.model.targets import Target
from services.writer.persist import landing_tables, typed_table
from services.writer.persist.insert_spec import InsertResult
from services.writer.persist.persist import (
    insert_landing,
    land_by,
    landing_spec,
    make_constraints_immediate,
)
from services.writer.persist.row_results import PersistResult, assemble
from services.writer.persist.table_rights import require_rights
from services.writer.postgres.database import Database
from services.writer.postgres.pool import discard
from shared import landing_columns
from shared.contracts.tables import FieldColumn, add_column, create_table

_SECONDS: Final = 1.0
_SCHEMA: Final = "pg_temp"
#: Short timeouts: live events and DDL have priority.
_LIMITS: Final = "SET LOCAL lock_timeout = '200ms'; SET LOCAL statement_timeout = '20s'"
_COPY: Final = "CREATE TEMPORARY TABLE {copy} (LIKE {table} INCLUDING ALL)"
_NEW_LANDING: Final = "CREATE TEMPORARY TABLE {copy} ({definitions})"
_LATER: Final = "ALTER TABLE {copy} ADD COLUMN IF NOT EXISTS {column}"
_OWN_SCHEMA: Final = "SELECT nspname::text FROM pg_namespace WHERE oid = pg_my_temp_schema()"
_SEQUENCES: Final = """
    SELECT a.attname::text, pg_get_expr(d.adbin, d.adrelid)
    FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
    WHERE d.adrelid = %s::regclass AND pg_get_expr(d.adbin, d.adrelid) ~ 'nextval\\('
"""
_NEXT_VALUE: Final = re.compile(r"nextval\('(?:[^']|'')*'(?:::[a-z]+)?\)")
_OWN_SEQUENCE: Final = "onramp_trial_sequence"


class Variant(NamedTuple):
    """A table under one set of rules: the target of its rows, and the columns that would be added first."""

    target: Target
    adds: tuple[FieldColumn, ...] = ()


class Copies:
    """The copies of one task in one database."""

    def __init__(self, conn: connection, database: Database) -> None:
        self._conn = conn
        self._database = database
        self._copies: dict[Variant, Target] = {}
        self._until = 0.0

    def persist(self, variant: Variant, rows: pa.Table) -> PersistResult:
        """Write `rows` into the copy and roll back; errors name the table itself.

        Raise psycopg2's error if the rows are not at fault, and `UntriedError` if no copy is possible.
        """
        return self._tried(variant, rows, is_shown=False)[0]

    def preview(self, variant: Variant, rows: pa.Table) -> tuple[PersistResult, list[str]]:
        """Write `rows` as `persist` does, and also return the rows of the copy as Postgres' JSON."""
        return self._tried(variant, rows, is_shown=True)

    def _tried(self, variant: Variant, rows: pa.Table, *, is_shown: bool) -> tuple[PersistResult, list[str]]:
        if time.monotonic() > self._until:
            self.drop()
            self._begin()
        if variant not in self._copies:
            self._copies[variant] = self._create(variant)
        copy, shown = self._copies[variant], list[str]()
        with self._rolled_back():
            result = self._persist(variant.target, copy, rows)
            if is_shown and not result.parked:
                shown = self._shown_rows(copy)
        for each in result.parked:
            each.error.detail = self._shown(variant, each.error.detail)
        return result, shown

    def _shown_rows(self, copy: Target) -> list[str]:
        table = sql.Identifier(copy.schema, copy.table)
        with self._conn.cursor() as cursor:
            cursor.execute(sql.SQL("SELECT to_json(t)::text FROM {} t").format(table))
            return [text for (text,) in cursor.fetchall()]

    def drop(self) -> None:
        """Roll back, which removes all copies and locks."""
        self._copies.clear()
        self._until = 0.0
        try:
            if not self._conn.closed:
                self._conn.rollback()
        except psycopg2.Error:
            discard(self._conn)

    def _shown(self, variant: Variant, detail: str) -> str:
        """Return an error's `detail` with the copy's name replaced by the table's."""
        copy = self._copies[variant]
        return detail.replace(str(copy), str(variant.target)).replace(copy.table, variant.target.table)

    def is_lost(self, error: psycopg2.Error) -> bool:
        """Return whether the whole database is unreachable, not only one table."""
        return bool(self._conn.closed) or error.pgcode is None

    def _begin(self) -> None:
        with self._conn.cursor() as cursor:
            cursor.execute(_LIMITS)
        make_constraints_immediate(self._conn)
        self._until = time.monotonic() + _SECONDS

    @contextmanager
    def _rolled_back(self) -> Iterator[None]:
        with self._conn.cursor() as cursor:
            cursor.execute("SAVEPOINT onramp_trial")
            yield
            cursor.execute("ROLLBACK TO SAVEPOINT onramp_trial; RELEASE SAVEPOINT onramp_trial")

    def _persist(self, target: Target, copy: Target, rows: pa.Table) -> PersistResult:
        if target.typed:
            return typed_table.persist(self._conn, self._database, copy, rows)
        described = catalog.known(self._database, copy)
        has_key = described is not None and any(k.columns == (landing_tables.KEY,) for k in described.keys)
        spec = landing_spec(copy, has_key=has_key)

        def insert(part: pa.Table) -> InsertResult:
            return insert_landing(self._conn, self._database, spec, part, lambda: None)

        inserted = land_by(self._conn, self._database, spec, rows, insert)
        return assemble(rows, inserted.landed, inserted.errors)

    def _create(self, variant: Variant) -> Target:
        """Create a copy and return it; return a target that is not a table itself, which accepts no row."""
        target = variant.target
        table = catalog.describe(self._conn, self._database, target)
        absent = table is None and target.typed and not variant.adds
        if absent or (table is not None and not table.is_table):
            return target
        require_rights(self._conn, self._database, target, copied=table is not None)
        name = f"onramp_trial_{len(self._copies)}"
        self._execute(self._statements(variant, name, there=None if table is None else set(table.columns)))
        with self._conn.cursor() as cursor:
            cursor.execute(_OWN_SCHEMA)
            (schema,) = cursor.fetchone() or ("",)
            cursor.execute(_SEQUENCES, (f"{_SCHEMA}.{name}",))
            defaults = cursor.fetchall()
        if defaults:
            self._execute(_own_sequence(name, defaults))
        copy = Target(self._database.name, schema, name, target.typed, target.unknown_fields)
        catalog.describe(self._conn, self._database, copy)  # an earlier copy had the same name
        return copy

    def _statements(self, variant: Variant, name: str, there: set[str] | None) -> list[sql.Composable]:
        """Return the DDL of the copy; `there`: the columns of the table, None if it does not exist."""
        target, copy = variant.target, sql.Identifier(_SCHEMA, name)
        if there is None and target.typed:
            return [sql.SQL(create_table(_SCHEMA, name, list(variant.adds)))]
        if there is None:
            definitions = sql.SQL(", ").join(sql.SQL(c.definition) for c in landing_columns.COLUMNS)
            return [sql.SQL(_NEW_LANDING).format(copy=copy, definitions=definitions)]
        statements: list[sql.Composable] = [
            sql.SQL(_COPY).format(copy=copy, table=sql.Identifier(target.schema, target.table))
        ]
        statements += [
            sql.SQL(add_column(_SCHEMA, name, each)) for each in variant.adds if each.name not in there
        ]
        if not target.typed:
            later = [c for c in landing_columns.COLUMNS if c.is_later]
            statements += [sql.SQL(_LATER).format(copy=copy, column=sql.SQL(c.definition)) for c in later]
        return statements

    def _execute(self, statements: list[sql.Composable]) -> None:
        with self._conn.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)


def _own_sequence(name: str, defaults: list[tuple[str, str]]) -> list[sql.Composable]:
    """Return the DDL that makes the copy's defaults use a sequence of its own."""
    own = f"nextval('{_SCHEMA}.{_OWN_SEQUENCE}'::regclass)"
    return [
        sql.SQL(f"CREATE TEMPORARY SEQUENCE IF NOT EXISTS {_OWN_SEQUENCE}"),
        *(
            sql.SQL("ALTER TABLE {} ALTER COLUMN {} SET DEFAULT {}").format(
                sql.Identifier(_SCHEMA, name), sql.Identifier(column), sql.SQL(_NEXT_VALUE.sub(own, default))
            )
            for column, default in defaults
        ),
    ]
