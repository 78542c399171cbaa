"""The holds of a database, for an operator: list, resume and dead-letter them.

The CLI and the admin service change holds only here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, NamedTuple

import psycopg2
from psycopg2.extensions import connection

from shared.errors import DATABASE_UNAVAILABLE, DATABASE_UNFIT, InfrastructureError
from shared.postgres.connect import has_table
from shared.postgres.failures import failure
from shared.postgres.idle_connections import IDLE

_TABLE: Final = "onramp.holds"
#: Maximum waiting events of a hold that a reading counts row by row.
MAX_COUNTED: Final = 10_000
#: Above the maximum the count is that of `onramp.totals`, for the topics and tables in which events of the
#: type wait; these are found by skipping through the index.  The oldest event is then that of the index's
#: first entries.
_READ: Final = """
    SELECT h.kind, h.name, h.state, h.sqlstate, h.since, w.events, w.oldest
    FROM onramp.holds h, LATERAL (
        SELECT CASE WHEN count(*) <= %(max)s THEN count(*) ELSE coalesce((
            SELECT sum(t.events)::int8 FROM onramp.totals t
            WHERE t.outcome = 'waiting' AND t.destination = h.name), 0) END, min(added_at)
        FROM (SELECT added_at FROM onramp.waiting WHERE destination = h.name
              ORDER BY destination, db_schema, typed, topic_id, partition, "offset" LIMIT %(max)s + 1) first
    ) w (events, oldest)
    WHERE h.kind = 'table' AND h.state <> 'watched'
    UNION ALL
    SELECT h.kind, h.name, h.state, h.sqlstate, h.since, w.events, w.oldest
    FROM onramp.holds h, LATERAL (
        SELECT CASE WHEN count(*) <= %(max)s THEN count(*) ELSE (
            WITH RECURSIVE places AS (
                (SELECT destination, db_schema, typed, topic_id FROM onramp.waiting WHERE event_type = h.name
                 ORDER BY destination, db_schema, typed, topic_id LIMIT 1)
                UNION ALL
                SELECT n.* FROM places p, LATERAL (
                    SELECT destination, db_schema, typed, topic_id FROM onramp.waiting w
                    WHERE event_type = h.name AND (w.destination, w.db_schema, w.typed, w.topic_id)
                        > (p.destination, p.db_schema, p.typed, p.topic_id)
                    ORDER BY destination, db_schema, typed, topic_id LIMIT 1) n
            )
            SELECT coalesce(sum(t.events), 0)::int8 FROM onramp.totals t
            WHERE t.outcome = 'waiting'
                AND (t.destination, t.topic_id) IN (SELECT destination, topic_id FROM places)
        ) END, min(added_at)
        FROM (SELECT added_at FROM onramp.waiting WHERE event_type = h.name
              ORDER BY event_type, destination, db_schema, typed, topic_id, partition, "offset"
              LIMIT %(max)s + 1) first
    ) w (events, oldest)
    WHERE h.kind = 'type' AND h.state <> 'watched'
    ORDER BY 1, 2
"""
#: Resets the counts of parked events, because an operator has resumed the type.
_RESUME: Final = """
    UPDATE onramp.holds SET state = 'resumed', events = 0, parked = 0
    WHERE kind = 'type' AND name = %(name)s AND state = 'paused' AND {same}
"""


#: Also for a hold that was dead-lettered before: later events are dead-lettered too.
_DEAD_LETTER: Final = """
    UPDATE onramp.holds SET state = 'dead_lettered', dead_lettered_at = now(), dead_lettered_by = %(by)s,
        reason = %(reason)s
    WHERE name = %(name)s AND state <> 'watched' AND {same}
"""
#: The hold is the one that the operator has read; any hold without one.
_SAME: Final = """
    (%(state)s::text IS NULL OR (kind, state, since) = (%(kind)s, %(state)s, %(since)s))
"""

#: Timeout of an unresponsive server in seconds; queries of many databases wait this long for each.
PATIENCE_SECONDS: Final = 2.0
_OPTIONS: Final = "-c lock_timeout=2000"


class Hold(NamedTuple):
    """A hold, the number of events that wait behind it, and the time of the oldest.

    Above `MAX_COUNTED` events the number includes other types of the same topic and table, and the time is
    that of one of the oldest.
    """

    database: str
    kind: str
    name: str
    state: str
    sqlstate: str | None
    since: datetime
    waiting: int
    oldest: datetime | None

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        oldest = self.oldest and self.oldest.isoformat()
        return self._asdict() | {"since": self.since.isoformat(), "oldest": oldest}


def holds(database: str, dsn: str) -> list[Hold]:
    """Return the paused, resumed and blocked holds of the database.  Raises `InfrastructureError`.

    A database that no writer has prepared has none.
    """
    with connected(database, dsn) as conn:
        return holds_in(conn, database) if has_table(conn, _TABLE) else []


def holds_in(conn: connection, database: str) -> list[Hold]:
    """Return the same in the transaction of a connection.  Raises `psycopg2.Error`."""
    with conn.cursor() as cursor:
        cursor.execute(_READ, {"max": MAX_COUNTED})
        return [Hold(database, *row) for row in cursor.fetchall()]


def resume(database: str, dsn: str, event_type: str, *, of: Hold | None = None) -> bool:
    """Resume `event_type` so that its waiting events land; return False if it is not paused there.

    With `of`, also return False if the hold has changed since then.  Raises `InfrastructureError`.
    """
    with connected(database, dsn) as conn, conn.cursor() as cursor:
        if not has_table(conn, _TABLE):
            return False
        cursor.execute(_RESUME.format(same=_SAME), {"name": event_type, **_state_of(of)})
        return bool(cursor.rowcount)


def dead_letter(database: str, dsn: str, name: str, *, by: str, reason: str, of: Hold | None = None) -> bool:
    """Have events that wait behind the holds of this name parked; return False without such a hold.

    With `of`, only this hold, and return False if it has changed since then.  Raises `InfrastructureError`.
    """
    values = {"name": name, "by": by, "reason": reason, **_state_of(of)}
    with connected(database, dsn) as conn, conn.cursor() as cursor:
        cursor.execute(_DEAD_LETTER.format(same=_SAME), values)
        return bool(cursor.rowcount)


def _state_of(held: Hold | None) -> dict[str, Any]:
    return {name: held and getattr(held, name) for name in ("kind", "state", "since")}


@contextmanager
def connected(database: str, dsn: str) -> Iterator[connection]:
    """Lend a connection whose changes are committed at the end.

    Raises `InfrastructureError`, also if the server does not answer for `PATIENCE_SECONDS`.
    """
    lent = IDLE.lent(f"database {database}", dsn, PATIENCE_SECONDS, name="onramp-operator", options=_OPTIONS)
    try:
        with lent as conn, conn:
            yield conn
    except InfrastructureError as e:
        if e.fault is not DATABASE_UNFIT:  # the others name the database
            raise
        raise InfrastructureError(e.fault, f"database {database}: {e.detail}") from None
    except psycopg2.Error as e:
        raise InfrastructureError(DATABASE_UNAVAILABLE, failure(f"database {database}", e)) from None
