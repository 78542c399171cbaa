"""Reads one database for a statement: a few grouped queries in one snapshot, however many partitions.

Owns psycopg2 for this package.
"""

from datetime import UTC, datetime
from typing import Final

import psycopg2
from psycopg2.extensions import connection

from services.ops.statement.reading import Counts, DatabaseReading, SourceTable, TopicReading
from shared import wire
from shared.errors import DATABASE_UNAVAILABLE, InfrastructureError
from shared.postgres.answering import answering
from shared.postgres.connect import connect, has_table
from shared.postgres.failures import failure

_OPTIONS: Final = "-c search_path=pg_catalog,pg_temp -c timezone=UTC -c statement_timeout={ms}"
_LEDGER: Final = """
    SELECT topic_id::text, topic, array_agg(partition), array_agg(next_offset)
    FROM onramp.ledger WHERE topic <> %s GROUP BY 1, 2
"""
#: `routed` is no outcome: the sum of the outcomes has to equal it.
_COUNTS: Final = """
    SELECT topic_id::text, destination, outcome, sum(events)::int8 FROM (
        SELECT topic_id, destination, outcome, events FROM onramp.totals
        UNION ALL SELECT topic_id, destination, 'routed', events FROM onramp.routed
    ) counted GROUP BY 1, 2, 3
"""
#: Offsets between settled ranges, or between the last one and the ledger: no transaction settled them.
_SKIPPED: Final = """
    WITH settled AS (
        SELECT topic_id, partition, start, "end" FROM onramp.settled_under
        UNION ALL
        SELECT topic_id, partition, since, upto FROM onramp.ledger WHERE digest IS NOT NULL
        UNION ALL
        SELECT topic_id, partition, next_offset, next_offset FROM onramp.ledger WHERE digest IS NOT NULL
    ), ordered AS (
        SELECT topic_id, start, max("end") OVER (
            PARTITION BY topic_id, partition ORDER BY start, "end"
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS settled_to
        FROM settled
    )
    SELECT topic_id::text, sum(start - settled_to)::int8 FROM ordered WHERE start > settled_to GROUP BY 1
"""
_SOURCES: Final = """
    SELECT source, schema_name || '.' || table_name, 'landing.' || landing, changes, repeats, reason
    FROM onramp.table_settings ORDER BY 1, 2
"""


def read(name: str, dsn: str, seconds: float) -> DatabaseReading:
    """Return a reading of the database.  Raises `InfrastructureError`, within about `seconds`."""
    options = _OPTIONS.format(ms=int(seconds * 1000))

    def open_() -> connection:
        return connect(dsn, name="onramp-statement", options=options)

    try:
        with answering(f"database {name}", dsn, open_, seconds / 2) as conn:
            conn.set_session(isolation_level="REPEATABLE READ", readonly=True)
            return _read(conn)
    except psycopg2.Error as e:
        raise InfrastructureError(DATABASE_UNAVAILABLE, failure(f"database {name}", e)) from None


def _read(conn: connection) -> DatabaseReading:
    with conn.cursor() as cursor:
        cursor.execute(_LEDGER, (wire.topic_of(wire.PROBE_EVENT),))
        topics = {
            topic_id: TopicReading(topic, dict(zip(partitions, next_offsets, strict=True)))
            for topic_id, topic, partitions, next_offsets in cursor.fetchall()
        }
        at = datetime.now(UTC)
        cursor.execute(_COUNTS)
        for topic_id, destination, outcome, events in cursor.fetchall():
            if topic_id not in topics:
                continue  # of a ledger's row that an operator removed
            counts = topics[topic_id].destinations.setdefault(destination, Counts(0, {}))
            if outcome == "routed":
                counts.routed = events
            else:
                counts.outcomes[outcome] = events
        cursor.execute(_SKIPPED)
        for topic_id, skipped in cursor.fetchall():
            if topic_id in topics:
                topics[topic_id].skipped = skipped
        tables = []
        if has_table(conn, "onramp.table_settings"):
            cursor.execute(_SOURCES)
            tables = [SourceTable(*row) for row in cursor.fetchall()]
    return DatabaseReading(at, topics, tables)
