"""The default landing: a table per event name, made on first sight, queryable at once."""

from typing import Final

import psycopg2
import pyarrow as pa
import pyarrow.compute as pc
from psycopg2 import sql
from psycopg2.extensions import connection

from services.writer.pool import connected
from services.writer.postgres import Database, translate
from services.writer.ranges import Partition
from services.writer.remembered import Remembered

SCHEMA: Final = "events"
KEY: Final = "_id"
#: The columns of a landing table, in order.
COLUMNS: Final = pa.schema(
    [
        ("_id", pa.string()),
        ("_event_name", pa.string()),
        ("_timestamp", pa.timestamp("us", "UTC")),
        ("_version", pa.string()),
        ("_received_at", pa.timestamp("us", "UTC")),
        ("_topic", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("payload", pa.string()),
    ]
)

_CREATE: Final = """
    CREATE TABLE IF NOT EXISTS {table} (
        _id          text PRIMARY KEY,
        _event_name  text NOT NULL,
        _timestamp   timestamptz NOT NULL,
        _version     text NOT NULL,
        _received_at timestamptz NOT NULL,
        _topic       text NOT NULL,
        _partition   integer NOT NULL,
        _offset      bigint NOT NULL,
        payload      jsonb NOT NULL
    )
"""
#: Whether the table that is there has a key that tells a repeat: its owner may have dropped it.
_IS_KEYED: Final = """
    SELECT EXISTS (
        SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
        WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indimmediate
          AND i.indpred IS NULL AND i.indnkeyatts = 1 AND a.attname = %s)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s
"""
#: Two sessions that create one table at a time can fail on a catalogue's unique index.
_LOCK: Final = 7_203_155_002

#: By address and table name: the tables that are there, and whether they are keyed.
_known: Final[Remembered[tuple[str, str], bool]] = Remembered()


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
    keyed = _is_keyed(conn, name)
    if keyed is None:  # a role that may only insert needs no more where it is there
        _make(database, name)
    _known.put((database.dsn, name), keyed is not False)


def _is_keyed(conn: connection, name: str) -> bool | None:
    """Whether the table has its key; None: there is no table."""
    with conn.cursor() as cursor:
        cursor.execute(_IS_KEYED, (KEY, SCHEMA, name))
        found = cursor.fetchone()
        return None if found is None else bool(found[0])


def _make(database: Database, name: str) -> None:
    with connected(database, "ddl") as conn:
        try:
            with conn.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
                try:
                    cursor.execute(sql.SQL(_CREATE).format(table=sql.Identifier(SCHEMA, name)))
                finally:
                    cursor.execute("SELECT pg_advisory_unlock(%s)", (_LOCK,))
        except psycopg2.Error as e:
            raise translate(e, database) from None


def rows(partition: Partition, arrivals: pa.RecordBatch, events: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of one run's `events` (columns as `events.COLUMNS`), whose `arrivals` stand in the same order.

    A packet's row has no metadata; its typed table does not ask for it.
    """
    n = arrivals.num_rows
    return pa.RecordBatch.from_arrays(
        [
            events.column("id"),
            events.column("event_name"),
            events.column("timestamp"),
            events.column("version"),
            _received_at(arrivals),
            pa.repeat(partition.topic, n),
            pa.repeat(pa.scalar(partition.number, pa.int32()), n),
            arrivals.column("offset"),
            events.column("body"),
        ],
        schema=COLUMNS,
    )


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
