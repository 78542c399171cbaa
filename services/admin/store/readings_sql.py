"""Readings of databases for statements, and the states of the parked events of a period."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeVar

import msgspec
from psycopg2 import Binary
from psycopg2.extensions import connection
from psycopg2.extras import execute_values

from services.ops.statement.reading import StoredReading

#: The names of further readings; no database of the registry has a space in its name.
TRANSFORMS: Final = "the transforms"
LAKE: Final = "the lake"
R = TypeVar("R", bound=StoredReading)

_STORED: Final = "SELECT database FROM onramp_admin.readings WHERE hour = %s"
#: Two replicas of the service may take the same hour's reading; the first one counts.
_ADD: Final = """
    INSERT INTO onramp_admin.readings (hour, database, at, content) VALUES %s ON CONFLICT DO NOTHING
"""
_PRUNE: Final = "DELETE FROM onramp_admin.readings WHERE hour < %s"
_NEAREST: Final = """
    SELECT at, content FROM (
        (SELECT at, content FROM onramp_admin.readings
         WHERE database = %(database)s AND at >= %(time)s ORDER BY at LIMIT 1)
        UNION ALL
        (SELECT at, content FROM onramp_admin.readings
         WHERE database = %(database)s AND at < %(time)s ORDER BY at DESC LIMIT 1)
    ) near ORDER BY abs(extract(epoch FROM at - %(time)s)) LIMIT 1
"""
_STATES: Final = """
    SELECT p.topic, p.destination, s.state, count(*)
    FROM (VALUES %s) period (topic_id, topic, partition, first, upto)
    JOIN onramp_admin.parked p ON p.topic_id = period.topic_id::uuid AND p.topic = period.topic
     AND p.partition = period.partition AND p."offset" >= period.first AND p."offset" < period.upto
    JOIN onramp_admin.states s ON s.event = p.id
    GROUP BY 1, 2, 3
"""


def stored(conn: connection, hour: datetime) -> set[str]:
    """Return the databases that have a reading of this hour."""
    with conn.cursor() as cursor:
        cursor.execute(_STORED, (hour,))
        return {database for (database,) in cursor.fetchall()}


def add(conn: connection, hour: datetime, readings: Mapping[str, StoredReading]) -> None:
    """Store the readings of an hour by database, or by `TRANSFORMS` and `LAKE`."""
    rows = [(hour, name, reading.at, Binary(reading.as_bytes())) for name, reading in readings.items()]
    if rows:
        with conn.cursor() as cursor:
            execute_values(cursor, _ADD, rows)


def prune(conn: connection, now: datetime, days: int) -> None:
    """Remove the readings that are older than `days`."""
    with conn.cursor() as cursor:
        cursor.execute(_PRUNE, (now - timedelta(days=days),))


def nearest(conn: connection, name: str, kind: type[R], time: datetime) -> R | None:
    """Return the reading that is nearest to `time`, or None if there is none; names as in `add`."""
    with conn.cursor() as cursor:
        cursor.execute(_NEAREST, {"database": name, "time": time})
        row = cursor.fetchone()
    return msgspec.structs.replace(kind.from_bytes(bytes(row[1])), at=row[0]) if row else None


def states(
    conn: connection, offsets: Iterable[tuple[str, str, int, int, int]]
) -> dict[tuple[str, str], dict[str, int]]:
    """Return parked events by state, by topic and destination.

    `offsets`: topic id, topic, partition, first offset and end of each partition's period.
    """
    rows: Sequence[tuple[str, str, int, int, int]] = [*offsets]
    found: dict[tuple[str, str], dict[str, int]] = {}
    if rows:
        with conn.cursor() as cursor:
            counted = execute_values(cursor, _STATES, rows, page_size=len(rows), fetch=True)
        for topic, destination, state, events in counted:
            found.setdefault((topic, destination), {})[state] = events
    return found
