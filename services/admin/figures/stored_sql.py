"""The parked events of the control database by state, in one snapshot and without reading events."""

from collections.abc import Collection
from functools import partial
from typing import Final

import psycopg2
from psycopg2.extensions import connection

from services.admin.figures.locations import Stored
from services.ops.findings import Source
from services.ops.operate.holds_sql import PATIENCE_SECONDS
from shared import wire
from shared.errors import DATABASE_UNAVAILABLE, InfrastructureError
from shared.postgres.answering import PersistentConnection
from shared.postgres.connect import connect
from shared.postgres.failures import failure

_NAME: Final = "the control database"
_OPTIONS: Final = (
    "-c search_path=pg_catalog,pg_temp -c timezone=UTC -c statement_timeout=10000 "
    "-c default_transaction_isolation=repeatable\\ read -c default_transaction_read_only=on"
)
#: Each group has a stored count of all its events, and the moves since they were stored.  An event that a
#: transform parked is in another place too: the writer has landed it.
_STATES: Final = f"""
    SELECT state, coalesce(event_name, ''), starts_with(destination, '{wire.TRANSFORM_DESTINATION}') IS TRUE,
        sum(n)::bigint
    FROM (
        SELECT 'open' AS state, event_name, destination, events AS n FROM onramp_admin.groups
        UNION ALL
        SELECT m.state, g.event_name, g.destination, m.events FROM onramp_admin.moves m
            JOIN onramp_admin.groups g ON g.id = m.group_id
    ) moved GROUP BY 1, 2, 3
"""  # noqa: S608 - our own words
#: By topic, because the events of a source are few, and the index of locations begins with a topic's id.
_OF_TOPICS: Final = """
    SELECT state, count(*) FROM onramp_admin.events
    WHERE topic_id = ANY (%s::uuid[]) AND topic = ANY (%s) GROUP BY 1
"""
_CONSUMED: Final = "SELECT topic, partition, next_offset FROM onramp_admin.consumed"
_QUARANTINED: Final = "SELECT count(*) FROM onramp_admin.quarantined"
_NEEDS_A_PERSON: Final = frozenset({"open", "replaying"})


class StoredReader:
    """Reads the control database on a connection of its own, which stays open; for one thread at a time."""

    def __init__(self, dsn: str) -> None:
        open_ = partial(connect, dsn, name="onramp-figures", options=_OPTIONS)
        self._connection = PersistentConnection(_NAME, dsn, open_, PATIENCE_SECONDS)

    def read(self, changes: Collection[tuple[str, str]] = ()) -> Stored:
        """Return the counts; `changes`: (topic id, topic) of sources with parked events.

        Raises `InfrastructureError`, also if the server does not answer for `PATIENCE_SECONDS`.
        """
        try:
            with self._connection.used() as conn, conn:
                return _read(conn, changes)
        except psycopg2.Error as e:
            self._connection.close()
            raise InfrastructureError(DATABASE_UNAVAILABLE, failure(_NAME, e)) from None

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _read(conn: connection, changes: Collection[tuple[str, str]]) -> Stored:
    with conn.cursor() as cursor:
        cursor.execute(_STATES)
        states: dict[str, int] = {}
        open_by_name: dict[str, int] = {}
        for state, name, is_of_transform, n in cursor.fetchall():
            if not is_of_transform:
                states[state] = states.get(state, 0) + n
            if state in _NEEDS_A_PERSON and n:
                open_by_name[name] = open_by_name.get(name, 0) + n
        of_changes: dict[str, int] = {}
        if changes:
            cursor.execute(_OF_TOPICS, ([i for i, _ in changes], [topic for _, topic in changes]))
            of_changes = dict(cursor.fetchall())
        cursor.execute(_CONSUMED)
        consumed = {Source(topic, n): offset for topic, n, offset in cursor.fetchall()}
        cursor.execute(_QUARANTINED)
        ((quarantined,),) = cursor.fetchall()
    return Stored(
        states=states,
        of_changes=of_changes,
        open_by_name=open_by_name,
        consumed=consumed,
        quarantined=quarantined,
    )
