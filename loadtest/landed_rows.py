"""The rows of a run in Postgres: the number of every row, and its record on Kafka.

Rows come as binary COPY of three bigints, so that tens of millions are read in a minute.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import psycopg2
from numpy.typing import NDArray
from psycopg2 import sql
from psycopg2.extensions import connection

from loadtest.bodies import DIGITS, SCHEMA, Names
from loadtest.shapes import KAFKA, SYSLOG
from shared import wire

SYSLOG_EVENT: Final = "syslog_message"
LANDING_SCHEMA: Final = "events"
#: In place of a number: the row is none of this run's packets, though the table is the run's own.
STRAY: Final = -1

_HEADER: Final = 19
_ROW: Final = np.dtype(
    [
        ("fields", ">i2"),
        ("number_length", ">i4"),
        ("number", ">i8"),
        ("partition_length", ">i4"),
        ("partition", ">i8"),
        ("offset_length", ">i4"),
        ("offset", ">i8"),
    ]
)
_CHUNK_BYTES: Final = 500_000 * _ROW.itemsize

#: Without a key of its own data, so that a packet that lands twice is two rows.  The key it
#: has costs what a key costs.
_MAKE: Final = """
    CREATE TABLE {table} (row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, i bigint NOT NULL, note text)
"""
_PACKETS: Final = "SELECT i, (-1)::bigint, (-1)::bigint FROM {table}"
_LANDED: Final = """
    SELECT CASE WHEN _id ~ {pattern} THEN right(_id, {digits})::bigint ELSE -1 END,
           _partition::bigint, _offset
    FROM {table}
"""
_LINES: Final = """
    SELECT CASE WHEN payload->>'message' ~ {pattern}
                THEN left(payload->>'message', {digits})::bigint ELSE -1 END,
           _partition::bigint, _offset
    FROM {table} WHERE payload->>'app_name' = {name}
"""

Rows = NDArray[Any]


def topic_of(via: str, names: Names) -> str:
    """Return the topic of a run."""
    return wire.topic_of(SYSLOG_EVENT if via == SYSLOG else names.event)


def table_of(via: str, names: Names) -> tuple[str, str]:
    """Return schema and table where a run's packets land."""
    if via == KAFKA:
        return SCHEMA, names.event
    return LANDING_SCHEMA, SYSLOG_EVENT if via == SYSLOG else names.event


def make_table(conn: connection, names: Names) -> None:
    """Create the table that a run's packets name as their destination."""
    with conn.cursor() as cursor:
        cursor.execute(sql.SQL(_MAKE).format(table=sql.Identifier(SCHEMA, names.event)))


def read_rows(conn: connection, via: str, names: Names, take: Callable[[Rows], None]) -> None:
    """Pass every row of the run to `take`, in pieces; none if there is no table."""
    with conn.cursor() as cursor:
        schema, table = table_of(via, names)
        cursor.execute("SELECT to_regclass(%s)", (sql.Identifier(schema, table).as_string(conn),))
        if (cursor.fetchone() or [None])[0] is None:
            return
        reader = _Reader(take)
        query = sql.SQL("COPY ({}) TO STDOUT (FORMAT binary)").format(_query(via, names))
        cursor.copy_expert(query, reader, 1 << 20)
        reader.finish()


def outcomes(conn: connection, via: str, names: Names) -> dict[str, int]:
    """Return the writer's counts of the run's topic, by outcome."""
    with conn.cursor() as cursor:
        cursor.execute(
            "SELECT outcome, sum(events)::bigint FROM onramp.totals WHERE topic = %s GROUP BY 1",
            (topic_of(via, names),),
        )
        return dict(cursor.fetchall())


def connect(dsn: str) -> connection:
    """Return a connection that commits by itself."""
    conn = psycopg2.connect(dsn, application_name="onramp-load")
    conn.autocommit = True
    return conn


def _query(via: str, names: Names) -> sql.Composed:
    values = {
        "table": sql.Identifier(*table_of(via, names)),
        "digits": sql.Literal(DIGITS),
        "name": sql.Literal(names.event),
        "pattern": sql.Literal(f"^{names.id_prefix}[0-9]{{{DIGITS}}}$"),
    }
    if via == KAFKA:
        return sql.SQL(_PACKETS).format(**values)
    if via == SYSLOG:
        values["pattern"] = sql.Literal(f"^[0-9]{{{DIGITS}}}( |$)")
        return sql.SQL(_LINES).format(**values)
    return sql.SQL(_LANDED).format(**values)


class _Reader:
    """Parses the bytes of COPY into rows."""

    def __init__(self, take: Callable[[Rows], None]) -> None:
        self._take = take
        self._buffer = bytearray()
        self._begun = False

    def write(self, data: bytes) -> None:
        """Called by psycopg2 once a row: every microsecond here is a minute of a large run."""
        self._buffer += data
        if len(self._buffer) > _CHUNK_BYTES:
            self._hand_out()

    def finish(self) -> None:
        """Check the end: only COPY's trailer follows the rows."""
        self._hand_out()

    def _hand_out(self) -> None:
        if not self._begun:
            del self._buffer[:_HEADER]
            self._begun = True
        whole = len(self._buffer) // _ROW.itemsize * _ROW.itemsize
        if whole:
            self._take(np.frombuffer(bytes(self._buffer[:whole]), _ROW))
            del self._buffer[:whole]
