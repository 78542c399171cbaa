"""The landing tables: one for each event name, created when its first event arrives."""

import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import connection

from services.writer.postgres.answer_cache import AnswerCache
from services.writer.postgres.database import Database
from services.writer.postgres.error_faults import translate
from services.writer.postgres.pool import connected
from shared import landing_columns
from shared.errors import DATABASE_UNAVAILABLE, InfrastructureError, OnrampError
from shared.landing_columns import Column, Part
from shared.landing_rows import COLUMNS, SOURCES, rows

__all__ = [
    "COLUMNS",
    "KEY",
    "SCHEMA",
    "SOURCES",
    "change",
    "confirm_table",
    "ensure_table",
    "ensure_tables",
    "has_key",
    "rows",
    "takes_inserts",
]

log = logging.getLogger(__name__)

SCHEMA: Final = landing_columns.SCHEMA
(KEY,) = landing_columns.named(Part.KEY)
_DEFINITIONS: Final = sql.SQL(", ").join(sql.SQL(c.definition) for c in landing_columns.COLUMNS)
_CREATE: Final = "CREATE TABLE IF NOT EXISTS {table} ({definitions})"
_LATER: Final = tuple(c for c in landing_columns.COLUMNS if c.is_later)
#: Describes existing tables: whether each has the unique key that identifies repeats (its owner may have
#: dropped the key), whether it has rules, and its columns.
_DESCRIBE: Final = """
    SELECT c.relname, EXISTS (
        SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
        WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indimmediate
          AND i.indpred IS NULL AND i.indnkeyatts = 1 AND a.attname = %s),
        c.relhasrules,
        array(SELECT a.attname::text FROM pg_attribute a
              WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = ANY (%s)
"""
#: Advisory lock of DDL: two sessions that create one table concurrently can fail on a catalog's unique index.
_LOCK: Final = 7_203_155_002
_UNDER_LOCK: Final = sql.SQL("SELECT pg_advisory_xact_lock({lock}); {statement}")

#: Maximum tables of one statement, for which other creators of tables wait.
_AT_ONCE: Final = 50


class _Description(NamedTuple):
    has_key: bool
    has_rules: bool
    columns: list[str]

    @property
    def missing(self) -> list[Column]:
        """The columns that a table created by an older release lacks."""
        return [c for c in _LATER if c.name not in self.columns]


#: The description of a table that was just created.
_NEW: Final = _Description(has_key=True, has_rules=False, columns=[])
#: Descriptions of existing tables, by address and table name.
_known: Final[AnswerCache[tuple[str, str], _Description]] = AnswerCache()


def ensure_tables(conn: connection, database: Database, names: Sequence[str]) -> None:
    """Create the missing landing tables of events `names`, many at a time.

    Tables that cannot be created together are left to `ensure_table`, which reports the reason.
    """
    unknown = [name for name in names if _known.get((database.dsn, name)) is None]
    if len(unknown) < 2:  # noqa: PLR2004 - a single table is as fast in `ensure_table`
        return
    existing = _describe(conn, unknown)
    for name, table in existing.items():
        if not table.missing:
            _known.put((database.dsn, name), table)
    absent = [name for name in unknown if name not in existing]
    for start in range(0, len(absent), _AT_ONCE):
        some = absent[start : start + _AT_ONCE]
        try:
            change(database, sql.SQL("; ").join(map(_creation, some)))
        except OnrampError:
            return
        for name in some:
            _known.put((database.dsn, name), _NEW)


def ensure_table(conn: connection, database: Database, name: str) -> None:
    """Create the landing table of event `name` unless it exists; the result is cached for a minute.

    DDL runs on a connection of its own, outside of every data transaction.  Raise
    `OnrampError` if the table cannot be created.
    """
    if _known.get((database.dsn, name)) is None:
        confirm_table(conn, database, name)


def has_key(database: Database, name: str) -> bool:
    """Return whether an ensured table had its unique key when it was last described."""
    return _known.last((database.dsn, name)).has_key


def takes_inserts(database: Database, name: str) -> bool:
    """Return whether INSERT is equivalent to COPY for the table, if it was described in the last minute."""
    table = _known.get((database.dsn, name))
    return table is not None and table.has_key and not table.has_rules


def confirm_table(conn: connection, database: Database, name: str) -> None:
    """Describe the table again; create it, or add missing columns."""
    table = _describe(conn, [name]).get(name)
    if table is None:  # only now: if the table exists, a role with the right to insert is sufficient
        change(database, _creation(name))
    elif missing := table.missing:
        _extend(database, name, missing)
    _known.put((database.dsn, name), table or _NEW)


def _describe(conn: connection, names: Sequence[str]) -> dict[str, _Description]:
    """Return the descriptions of the existing tables among `names`.  Costs one query."""
    with conn.cursor() as cursor:
        cursor.execute(_DESCRIBE, (KEY, SCHEMA, list(names)))
        return {name: _Description(*described) for name, *described in cursor.fetchall()}


def _creation(name: str) -> sql.Composed:
    return sql.SQL(_CREATE).format(table=_table(name), definitions=_DEFINITIONS)


def _table(name: str) -> sql.Identifier:
    return sql.Identifier(SCHEMA, name)


def _extend(database: Database, name: str, missing: Sequence[Column]) -> None:
    """Add the columns of later releases to a table that an older release created.

    No row is rewritten, so the lock is short.  If the lock is not available, or the role may not alter the
    table, the table's events wait, because they are not at fault.
    """
    added = sql.SQL(", ").join(sql.SQL(f"ADD COLUMN IF NOT EXISTS {c.definition}") for c in missing)
    statement = sql.SQL("ALTER TABLE {} {}").format(_table(name), added)
    try:
        change(database, statement)
    except OnrampError as e:
        raise _logged(database, statement, e) from None
    log.info("added new columns to a landing table", extra={"database": database.name, "table": name})


def _logged(database: Database, statement: sql.Composed, error: OnrampError) -> InfrastructureError:
    """Log the SQL to run; return the error that makes the table's events wait."""
    log.error(
        "a landing table lacks columns of this release, so its events wait: run the SQL as its owner",
        extra={"database": database.name, "reason": error.detail, "sql": _as_text(database, statement)},
    )
    return InfrastructureError(DATABASE_UNAVAILABLE, error.detail)


def _as_text(database: Database, statement: sql.Composed) -> str:
    with connected(database, "ddl") as conn:
        return statement.as_string(conn)


def change(database: Database, statement: sql.Composed) -> None:
    """Run DDL, one session at a time (advisory lock `_LOCK`).  Raise `OnrampError`."""
    with connected(database, "ddl") as conn:
        try:
            with conn.cursor() as cursor:
                # One message is one transaction, which holds the lock: a pooler may share the session.
                cursor.execute(_UNDER_LOCK.format(lock=sql.Literal(_LOCK), statement=statement))
        except psycopg2.Error as e:
            raise translate(e, database) from None
