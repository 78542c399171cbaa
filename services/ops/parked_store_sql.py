"""One snapshot of the control database, for the audit: stored events and decisions about them.

It is one read-only transaction at REPEATABLE READ, with at most a page of events in memory.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import psycopg2
from psycopg2.extensions import connection

from services.ops import audited_database_sql
from services.ops.findings import Source
from services.ops.parked.parked_events import Place
from shared import wire
from shared.errors import DATABASE_UNAVAILABLE, InfrastructureError

#: Its name in `UnreachableDatabaseError`, which no database of events has.
CONTROL: Final = ""
_ADDRESS: Final = "--control or ONRAMP_ADMIN_DSN (else the default database)"
_AT_ONCE: Final = 2_000
_PLACE: Final = 'e.topic_id::text, e.topic, e.partition, e."offset", e.destination'
_FIND: Final = f"""
    WITH k AS MATERIALIZED (
        SELECT * FROM unnest(%s::uuid[], %s::text[], %s::int4[], %s::int8[], %s::text[])
            AS k (topic_id, topic, partition, "offset", destination)
    )
    SELECT {_PLACE}, e.sha256, e.state
    FROM k JOIN onramp_admin.events e USING (topic_id, topic, partition, "offset", destination)
"""  # noqa: S608 - our own words
#: A destination without a database is empty, or a pointer into the packet.
_COUNT: Final = """
    WITH k AS MATERIALIZED (
        SELECT * FROM unnest(%s::text[], %s::int4[], %s::int8[], %s::int8[], %s::text[]) WITH ORDINALITY
            AS k (topic, partition, first, upto, prefix, n)
    )
    SELECT k.n - 1, e.state, count(*)
    FROM k JOIN onramp_admin.events e USING (topic, partition)
    WHERE e."offset" >= k.first AND e."offset" < k.upto AND CASE k.prefix
        WHEN '' THEN e.destination = '' OR starts_with(e.destination, '/')
        ELSE starts_with(e.destination, k.prefix) AND NOT EXISTS (
            SELECT FROM unnest(%s::text[]) longer (prefix)
            WHERE starts_with(longer.prefix, k.prefix) AND longer.prefix <> k.prefix
                AND starts_with(e.destination, longer.prefix)
        ) END
    GROUP BY 1, 2
"""
#: Without events that a transform ran on again: no database knows them.
_REPLAYED: Final = f"""
    SELECT {_PLACE} FROM onramp_admin.events e
    WHERE e.state IN ('replayed', 'replayed_duplicate')
        AND NOT starts_with(e.destination, '{wire.TRANSFORM_DESTINATION}')
    ORDER BY e.topic_id, e.topic, e.partition
"""  # noqa: S608 - our own words
_UNATTRIBUTED: Final = f"""
    SELECT {_PLACE} FROM onramp_admin.events e LEFT JOIN onramp_admin.jobs j ON j.id = e.job
    WHERE e.state = 'discarded'
        AND (j.kind IS DISTINCT FROM 'discard' OR j.actor = '' OR j.reason = '')
"""  # noqa: S608 - our own words
#: Events that should have bytes: the stored ones in the database, or a segment with the event.
_WITHOUT_BYTES: Final = f"""
    SELECT {_PLACE} FROM onramp_admin.events e LEFT JOIN onramp_admin.bytes b ON b.event = e.id
    WHERE e.sha256 IS NOT NULL AND NOT e.gone AND CASE
        WHEN b.event IS NOT NULL THEN sha256(b.value) <> e.sha256
        ELSE NOT coalesce((
            SELECT s.last_event >= e.id FROM onramp_admin.segments s WHERE s.first_event <= e.id
            ORDER BY s.first_event DESC LIMIT 1
        ), false) END
"""  # noqa: S608 - our own words
_CONSUMED: Final = "SELECT topic, partition, next_offset, topic_id::text FROM onramp_admin.consumed"
_FIX: Final = "SELECT fix::text, is_edited FROM onramp_admin.jobs WHERE uuid = %s"
_PAYLOAD: Final = """
    SELECT d.payload FROM onramp_admin.jobs j
        JOIN onramp_admin.edits d ON d.upload = (j.filters ->> 'edits')::bigint
        JOIN onramp_admin.events e ON e.id = d.event
    WHERE j.uuid = %s AND (e.topic_id, e.topic, e.partition, e."offset", e.destination)
        = (%s::uuid, %s, %s, %s, %s)
"""


class StoredEvent(NamedTuple):
    """The digest of an event's bytes, and its state."""

    sha256: bytes | None
    state: str


class EditOf(NamedTuple):
    """A job's edit of payloads: by steps, or by uploaded lines."""

    fix: str | None
    by_hand: bool


class StoredRange(NamedTuple):
    """A partition's events in [`first`, `upto`), parked by `database`, or without a database if None."""

    source: Source
    first: int
    upto: int
    database: str | None


@dataclass(frozen=True, slots=True)
class ParkedStore:
    """A snapshot of the control database.  Valid inside `opened` only."""

    conn: connection
    #: The next offset of each partition of `onramp.user_errors`.
    consumed: dict[Source, int]
    #: The topic's id at that time, where it is known.
    topic_ids: dict[Source, str]

    @classmethod
    def load(cls, conn: connection) -> Self | None:
        """Begin the snapshot; return None if this database has no schema of the admin service."""
        with _translated(conn), conn.cursor() as cur:
            cur.execute("SELECT to_regclass('onramp_admin.consumed')")
            if cur.fetchone() == (None,):
                return None
            cur.execute(_CONSUMED)
            rows = [(Source(topic, n), offset, topic_id) for topic, n, offset, topic_id in cur.fetchall()]
            return cls(
                conn,
                {source: offset for source, offset, _ in rows},
                {source: topic_id for source, _, topic_id in rows if topic_id},
            )

    def find(self, places: Sequence[Place]) -> dict[Place, StoredEvent]:
        """Return the stored ones of `places`."""
        columns = [list(column) for column in zip(*places, strict=True)] or [[], [], [], [], []]
        with _translated(self.conn), self.conn.cursor() as cur:
            cur.execute(_FIND, columns)
            return {
                Place(*of): StoredEvent(None if digest is None else bytes(digest), state)
                for *of, digest, state in cur.fetchall()
            }

    def count(self, ranges: Sequence[StoredRange], names: Collection[str]) -> list[Counter[str]]:
        """Count the events of each range by their states.

        `names`: all databases.  `main.b.t` is not of `main` if there is a database `main.b`.
        """
        found: list[Counter[str]] = [Counter() for _ in ranges]
        columns = (
            [r.source.topic for r in ranges],
            [r.source.partition for r in ranges],
            [r.first for r in ranges],
            [r.upto for r in ranges],
            ["" if r.database is None else f"{r.database}." for r in ranges],
            [f"{n}." for n in names if any(n.startswith(f"{other}.") for other in names)],
        )
        with _translated(self.conn), self.conn.cursor() as cur:
            cur.execute(_COUNT, columns)
            for n, state, events in cur.fetchall():
                found[n][state] += events
        return found

    def replayed(self) -> Iterator[Place]:
        """Yield the events that landed by a replay, or were there already, by generation."""
        return self._places("replayed", _REPLAYED)

    def unattributed(self) -> Iterator[Place]:
        """Yield the discarded events without a recorded operator and reason."""
        return self._places("unattributed", _UNATTRIBUTED)

    def without_bytes(self) -> Iterator[Place]:
        """Yield the events whose bytes are missing, or differ in the database."""
        return self._places("without_bytes", _WITHOUT_BYTES)

    def edit_of(self, job: str) -> EditOf | None:
        """Return a job's edit of payloads, or None if it is unknown."""
        with _translated(self.conn), self.conn.cursor() as cur:
            cur.execute(_FIX, (job,))
            row = cur.fetchone()
            return EditOf(*row) if row else None

    def payload_of(self, job: str, place: Place) -> bytes | None:
        """Return the payload that was uploaded for an event of a job, or None."""
        with _translated(self.conn), self.conn.cursor() as cur:
            cur.execute(_PAYLOAD, (job, *place))
            row = cur.fetchone()
            return bytes(row[0]) if row else None

    def _places(self, name: str, statement: str) -> Iterator[Place]:
        """Yield the rows of `statement`; the server sends them in parts."""
        with _translated(self.conn), self.conn.cursor(f"onramp_{name}") as cur:
            cur.itersize = _AT_ONCE
            cur.execute(statement)
            for row in cur:
                yield Place(*row)


@contextmanager
def opened(dsn: str) -> Iterator[ParkedStore | None]:
    """Open a snapshot of the control database at `dsn`, or None if it does not exist.

    Raises `InfrastructureError` if it cannot be read (`UnreachableDatabaseError`: no answer).
    """
    if not dsn:
        yield None
        return
    with audited_database_sql.opened(CONTROL, "the control database", dsn, _ADDRESS) as conn:
        yield ParkedStore.load(conn)


@contextmanager
def _translated(conn: connection) -> Iterator[None]:
    """Turn errors of statements, whose words may hold values, into `InfrastructureError`."""
    try:
        yield
    except psycopg2.Error as e:
        if conn.closed:
            raise
        raise InfrastructureError(
            DATABASE_UNAVAILABLE,
            f"the control database cannot be read: SQLSTATE {e.pgcode or 'none'}; name a role that may read "
            "it in --control or ONRAMP_ADMIN_DSN, and have this version's `onramp admin` bring it up to date",
        ) from None
