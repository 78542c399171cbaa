"""Reads a database's figures for /metrics: committed totals and warning counts, and the sessions.

The sizes are a reading of their own: with millions of rows, or a hundred thousand tables, it takes seconds,
and must not delay the totals.
"""

from dataclasses import dataclass
from typing import Final

from services.writer.park import outbox
from services.writer.postgres.database import Database
from services.writer.postgres.pool import transaction
from shared import wire

#: The duplicates of tracers are no users' events.
_TOTALS: Final = (
    "SELECT topic, destination, outcome, sum(events)::int8 FROM onramp.totals "
    "WHERE outcome <> 'waiting' AND topic <> %s GROUP BY 1, 2, 3"
)
_WARNINGS: Final = "SELECT destination, remark, sum(count)::int8 FROM onramp.warnings GROUP BY 1, 2"
#: Whether a replay, a rehearsal or a preview is staged.
_STAGED: Final = """
    SELECT EXISTS (SELECT FROM onramp.replays)
        OR EXISTS (SELECT FROM onramp.rehearsals WHERE outcome IS NULL)
        OR EXISTS (SELECT FROM onramp.previews WHERE answer IS NULL)
"""
#: The number of waiting events may fall: it is a gauge and not among the totals.
_WAITING: Final = "SELECT count(*), extract(epoch FROM min(added_at))::float8 FROM onramp.waiting"
_SIZES: Final = "SELECT pg_database_size(current_database()), (SELECT count(*) FROM onramp.outbox)"
_SESSIONS: Final = """
    SELECT coalesce(state, 'unknown'), count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name LIKE 'onramp-writer%' GROUP BY 1
"""


@dataclass(frozen=True, slots=True)
class DatabaseStats:
    """The figures read from one database."""

    #: (topic, schema.table, outcome) -> events
    totals: dict[tuple[str, str, str], int]
    #: (schema.table, warning) -> count
    warning_counts: dict[tuple[str, str], int]
    #: state -> sessions
    sessions: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSizes:
    """The sizes read from one database."""

    #: The number of events that wait in the database, and the time of the oldest one (Unix seconds).
    waiting: tuple[int, float | None] = (0, None)
    #: Parked events that are too large for their topic and stay in the outbox.
    too_large: int = 0
    #: Parked events in the outbox that are not published yet.
    outbox: int = 0
    size_bytes: int = 0


def read(database: Database) -> DatabaseStats:
    """Read the stats of `database` in one transaction (blocking).  Raises `OnrampError`."""
    with transaction(database, "driver") as conn, conn.cursor() as cursor:
        cursor.execute(_TOTALS, (wire.topic_of(wire.PROBE_EVENT),))
        totals = {(t, d, o): n for t, d, o, n in cursor.fetchall()}
        cursor.execute(_WARNINGS)
        warning_counts = {(d, r): n for d, r, n in cursor.fetchall()}
        cursor.execute(_SESSIONS)
        return DatabaseStats(totals, warning_counts, dict(cursor.fetchall()))


def is_staged(database: Database) -> bool:
    """Return whether replays or rehearsals are staged in `database` (blocking).  Raises `OnrampError`."""
    with transaction(database, "driver") as conn, conn.cursor() as cursor:
        cursor.execute(_STAGED)
        ((staged,),) = cursor.fetchall()
        return bool(staged)


def read_sizes(database: Database) -> DatabaseSizes:
    """Read the sizes of `database` in one transaction (blocking, for seconds).  Raises `OnrampError`."""
    with transaction(database, "driver") as conn, conn.cursor() as cursor:
        cursor.execute(_WAITING)
        (waiting,) = cursor.fetchall()
        cursor.execute(_SIZES)
        ((size_bytes, in_outbox),) = cursor.fetchall()
        return DatabaseSizes(
            waiting=waiting,
            too_large=outbox.too_large(conn, database.name),
            outbox=in_outbox,
            size_bytes=size_bytes,
        )
