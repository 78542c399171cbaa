"""The default landing: a table per event name, made on first sight, queryable at once."""

import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import psycopg2
import pyarrow as pa
import pyarrow.compute as pc
from psycopg2 import sql
from psycopg2.extensions import connection

from services.writer.model.offsets import Partition
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
#: Whether the table that is there has a key that tells a repeat (its owner may have dropped it), and
#: the columns that it has.
_LOOK: Final = """
    SELECT EXISTS (
        SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
        WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indimmediate
          AND i.indpred IS NULL AND i.indnkeyatts = 1 AND a.attname = %s),
        array(SELECT a.attname::text FROM pg_attribute a
              WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s
"""
#: Two sessions that create one table at a time can fail on a catalogue's unique index.
_LOCK: Final = 7_203_155_002

#: By address and table name: the tables that are there, and whether they are keyed.
_known: Final[AnswerCache[tuple[str, str], bool]] = AnswerCache()


def ensure_table(conn: connection, database: Database, name: str) -> None:
    """Make the landing table of event `name` unless it is there, as was seen on `conn` not long ago.

    DDL runs on a connection of its own, outside of every data transaction.  Raises
    `OnrampError` when the table cannot be made.
    """
    if _known.get((database.dsn, name)) is None:
        confirm_table(conn, database, name)


def is_keyed(database: Database, name: str) -> bool:
    """Whether a repeat can be told in the table, which was ensured, as it was last looked at."""
    return _known.last((database.dsn, name))


def confirm_table(conn: connection, database: Database, name: str) -> None:
    """Look at the table again, and make it if there is none."""
    found = _look(conn, name)
    if found is None:  # a role that may only insert needs no more where it is there
        _change(database, sql.SQL(_CREATE).format(table=_table(name), definitions=_DEFINITIONS))
    elif missing := [c for c in _LATER if c.name not in found.columns]:
        _extend(database, name, missing)
    _known.put((database.dsn, name), found is None or found.keyed)


class _Look(NamedTuple):
    keyed: bool
    columns: list[str]


def _look(conn: connection, name: str) -> _Look | None:
    """The table as it is; None: there is none."""
    with conn.cursor() as cursor:
        cursor.execute(_LOOK, (KEY, SCHEMA, name))
        found = cursor.fetchone()
        return None if found is None else _Look(*found)


def _table(name: str) -> sql.Identifier:
    return sql.Identifier(SCHEMA, name)


def _extend(database: Database, name: str, missing: Sequence[Column]) -> None:
    """Give a table that an older release made the columns that came later.

    No row is touched, so its lock is short; where it is not to be had, or not allowed, the
    table's events wait: they are not at fault.
    """
    added = sql.SQL(", ").join(sql.SQL(f"ADD COLUMN IF NOT EXISTS {c.definition}") for c in missing)
    statement = sql.SQL("ALTER TABLE {} {}").format(_table(name), added)
    try:
        _change(database, statement)
    except OnrampError as e:
        raise _waits(database, statement, e) from None
    log.info("a landing table has new columns", extra={"database": database.name, "table": name})


def _waits(database: Database, statement: sql.Composed, error: OnrampError) -> InfrastructureError:
    log.error(
        "a landing table lacks columns of this release and its events wait: let its owner run the SQL",
        extra={"database": database.name, "reason": error.detail, "sql": _spelled(database, statement)},
    )
    return InfrastructureError(DATABASE_UNAVAILABLE, error.detail)


def _spelled(database: Database, statement: sql.Composed) -> str:
    with connected(database, "ddl") as conn:
        return statement.as_string(conn)


def _change(database: Database, statement: sql.Composed) -> None:
    """Run DDL, one session at a time."""
    with connected(database, "ddl") as conn:
        try:
            with conn.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
                try:
                    cursor.execute(statement)
                finally:
                    cursor.execute("SELECT pg_advisory_unlock(%s)", (_LOCK,))
        except psycopg2.Error as e:
            raise translate(e, database) from None


#: Where each column's values are from.
SOURCES: Final[dict[str, Callable[[Partition, pa.RecordBatch, pa.RecordBatch], pa.Array]]] = {
    "_id": lambda _, __, events: events.column("id"),
    "_event_name": lambda _, __, events: events.column("event_name"),
    "_timestamp": lambda _, __, events: events.column("timestamp"),
    "_version": lambda _, __, events: events.column("version"),
    "_received_at": lambda _, arrivals, __: _received_at(arrivals),
    "_topic": lambda partition, arrivals, _: pa.repeat(partition.topic, len(arrivals)),
    "_partition": lambda p, arrivals, _: pa.repeat(pa.scalar(p.number, pa.int32()), len(arrivals)),
    "_offset": lambda _, arrivals, __: arrivals.column("offset"),
    "payload": lambda _, __, events: events.column("body"),
}


def rows(partition: Partition, arrivals: pa.RecordBatch, events: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of one run's `events` (columns as `events.COLUMNS`), whose `arrivals` stand in the same order.

    A packet's row has no metadata; its typed table does not ask for it.
    """
    values = [SOURCES[name](partition, arrivals, events) for name in COLUMNS.names]
    return pa.RecordBatch.from_arrays(values, schema=COLUMNS)


def _received_at(arrivals: pa.RecordBatch) -> pa.Array:
    """The gateway's header where it is a timestamp, else when Kafka's client made the record."""
    headers = arrivals.column("received_at")
    try:
        received = _as_time(headers)
    except pa.ArrowInvalid:  # another client's header, in a form of its own
        received = pa.concat_arrays([_as_time_or_null(headers.slice(i, 1)) for i in range(len(headers))])
    return pc.coalesce(received, arrivals.column("timestamp"))


def _as_time(headers: pa.Array) -> pa.Array:
    return headers.cast(pa.string()).cast(COLUMNS.field("_received_at").type)


def _as_time_or_null(header: pa.Array) -> pa.Array:
    try:
        return _as_time(header)
    except pa.ArrowInvalid:
        return pa.nulls(1, COLUMNS.field("_received_at").type)
