"""The landing tables: one for each event name, created when its first event arrives."""

import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import psycopg2
import pyarrow as pa
from psycopg2 import sql
from psycopg2.extensions import connection

from services.writer.model.records import received_at
from services.writer.postgres.answer_cache import AnswerCache
from services.writer.postgres.database import Database, translate
from services.writer.postgres.pool import connected
from shared import landing_table
from shared.errors import DATABASE_UNAVAILABLE, InfrastructureError, OnrampError
from shared.landing_table import Column, Part

log = logging.getLogger(__name__)

SCHEMA: Final = landing_table.SCHEMA
(KEY,) = landing_table.named(Part.KEY)
_TYPES: Final = {
    "text": pa.string(),
    "timestamptz": pa.timestamp("us", "UTC"),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "jsonb": pa.string(),
}
#: The columns of a landing table, in order.
COLUMNS: Final = pa.schema([(c.name, _TYPES[c.type]) for c in landing_table.COLUMNS])
_DEFINITIONS: Final = sql.SQL(", ").join(sql.SQL(c.definition) for c in landing_table.COLUMNS)
_CREATE: Final = "CREATE TABLE IF NOT EXISTS {table} ({definitions})"
_LATER: Final = tuple(c for c in landing_table.COLUMNS if c.is_later)
#: Of existing tables: whether each has the unique key that tells a repeat (its owner may have dropped it),
#: whether it has rules, and its columns.
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
#: Two sessions that create one table at a time can fail on a catalogue's unique index.
_LOCK: Final = 7_203_155_002
_UNDER_LOCK: Final = sql.SQL("SELECT pg_advisory_xact_lock({lock}); {statement}")

#: Tables that one statement makes: others who make tables wait for it.
_AT_ONCE: Final = 50


class _Description(NamedTuple):
    has_key: bool
    has_rules: bool
    columns: list[str]

    @property
    def missing(self) -> list[Column]:
        """What a table that an older release made lacks."""
        return [c for c in _LATER if c.name not in self.columns]


#: What a table is like that was just made.
_NEW: Final = _Description(has_key=True, has_rules=False, columns=[])
#: By address and table name: the tables that exist.
_known: Final[AnswerCache[tuple[str, str], _Description]] = AnswerCache()


def ensure_tables(conn: connection, database: Database, names: Sequence[str]) -> None:
    """Create the landing tables of events `names` that do not exist, many at a time.

    What cannot be created so is left to `ensure_table`, which tells why.
    """
    unknown = [name for name in names if _known.get((database.dsn, name)) is None]
    if len(unknown) < 2:  # noqa: PLR2004 - one is as quick by itself
        return
    found = _describe(conn, unknown)
    for name, table in found.items():
        if not table.missing:
            _known.put((database.dsn, name), table)
    absent = [name for name in unknown if name not in found]
    for start in range(0, len(absent), _AT_ONCE):
        some = absent[start : start + _AT_ONCE]
        try:
            change(database, sql.SQL("; ").join(map(_creation, some)))
        except OnrampError:
            return
        for name in some:
            _known.put((database.dsn, name), _NEW)


def ensure_table(conn: connection, database: Database, name: str) -> None:
    """Create the landing table of event `name` unless it exists; cached for a minute, so usually free.

    DDL runs on a connection of its own, outside of every data transaction.  Raises
    `OnrampError` when the table cannot be created.
    """
    if _known.get((database.dsn, name)) is None:
        confirm_table(conn, database, name)


def has_key(database: Database, name: str) -> bool:
    """Return whether the table, which was ensured, had its unique key when it was last described."""
    return _known.last((database.dsn, name)).has_key


def takes_inserts(database: Database, name: str) -> bool:
    """Return whether the table, described in the last minute, takes by INSERT what it takes by COPY."""
    table = _known.get((database.dsn, name))
    return table is not None and table.has_key and not table.has_rules


def confirm_table(conn: connection, database: Database, name: str) -> None:
    """Describe the table again; create it, or add missing columns."""
    table = _describe(conn, [name]).get(name)
    if table is None:  # only now: where the table exists, a role that may only insert is enough
        change(database, _creation(name))
    elif missing := table.missing:
        _extend(database, name, missing)
    _known.put((database.dsn, name), table or _NEW)


def _describe(conn: connection, names: Sequence[str]) -> dict[str, _Description]:
    """Return the descriptions of those tables that exist.  Costs one query."""
    with conn.cursor() as cursor:
        cursor.execute(_DESCRIBE, (KEY, SCHEMA, list(names)))
        return {name: _Description(*described) for name, *described in cursor.fetchall()}


def _creation(name: str) -> sql.Composed:
    return sql.SQL(_CREATE).format(table=_table(name), definitions=_DEFINITIONS)


def _table(name: str) -> sql.Identifier:
    return sql.Identifier(SCHEMA, name)


def _extend(database: Database, name: str, missing: Sequence[Column]) -> None:
    """Add the columns of later releases to a table that an older release created.

    No row is rewritten, so its lock is short; where the lock is not available, or the role may
    not alter the table, its events wait: they are not at fault.
    """
    added = sql.SQL(", ").join(sql.SQL(f"ADD COLUMN IF NOT EXISTS {c.definition}") for c in missing)
    statement = sql.SQL("ALTER TABLE {} {}").format(_table(name), added)
    try:
        change(database, statement)
    except OnrampError as e:
        raise _logged(database, statement, e) from None
    log.info("a landing table has new columns", extra={"database": database.name, "table": name})


def _logged(database: Database, statement: sql.Composed, error: OnrampError) -> InfrastructureError:
    """Log the SQL that is missing; return the error that makes the table's events wait."""
    log.error(
        "a landing table lacks columns of this release and its events wait: let its owner run the SQL",
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


#: How each column is built of Kafka's records and their parsed events.
SOURCES: Final[dict[str, Callable[[pa.RecordBatch, pa.RecordBatch], pa.Array]]] = {
    "_id": lambda _, events: events.column("id"),
    "_event_name": lambda _, events: events.column("event_name"),
    "_timestamp": lambda _, events: events.column("timestamp"),
    "_version": lambda _, events: events.column("version"),
    "_received_at": lambda records, _: received_at(records),
    "_topic": lambda records, _: records.column("topic"),
    "_partition": lambda records, _: records.column("partition"),
    "_offset": lambda records, _: records.column("offset"),
    "payload": lambda _, events: events.column("body"),
}


def rows(records: pa.RecordBatch, events: pa.RecordBatch) -> pa.RecordBatch:
    """Build the rows (`COLUMNS`) of `events` (`events.COLUMNS`) and their Kafka `records` (`ARRIVALS`).

    The two are row by row the same events.  A packet's row has no metadata; its typed table does
    not need it.  Costs nothing per row in Python.
    """
    values = [SOURCES[name](records, events) for name in COLUMNS.names]
    return pa.RecordBatch.from_arrays(values, schema=COLUMNS)
