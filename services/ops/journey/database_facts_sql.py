"""Facts of one database about a receipt: ledger, waiting and parked events, replays, holds, a halt.

Each statement reads an index by the receipt, so the cost does not grow with the database.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

import orjson
import psycopg2
from psycopg2.extensions import connection

from services.ops.journey.subject import Receipt
from shared.errors import DATABASE_UNAVAILABLE, InfrastructureError
from shared.postgres.failures import failure
from shared.postgres.idle_connections import IDLE

#: Seconds without a sign of life until a database is unreachable.
PATIENCE_SECONDS: Final = 1.5
_OPTIONS: Final = (
    "-c search_path=pg_catalog,pg_temp -c timezone=UTC -c default_transaction_read_only=on "
    "-c statement_timeout=1200 -c lock_timeout=600"
)
_LEDGER: Final = """
    SELECT l.topic_id::text, l.next_offset, coalesce(
        CASE WHEN l.since <= %(offset)s AND l.upto > %(offset)s THEN l.digest END,
        (SELECT u.digest FROM onramp.settled_under u
         WHERE u.topic_id = l.topic_id AND u.topic = l.topic AND u.partition = l.partition
             AND u.start <= %(offset)s AND u."end" > %(offset)s ORDER BY u.id DESC LIMIT 1))
    FROM onramp.ledger l WHERE l.topic = %(topic)s AND l.partition = %(partition)s
"""
#: The generations of the topic that the database knows, so that each statement has the whole prefix of a key.
_IDS: Final = "SELECT topic_id FROM onramp.ledger WHERE topic = %(topic)s AND partition = %(partition)s"
_RECEIPT: Final = (
    f"topic_id = ANY (ARRAY({_IDS})) AND topic = %(topic)s AND partition = %(partition)s "
    'AND "offset" = %(offset)s'
)
_OUTBOX: Final = f"SELECT topic_id::text, destination, error::text FROM onramp.outbox WHERE {_RECEIPT}"  # noqa: S608
#: The tables that events wait for, by jumping from one to the next in the key: millions may wait for one.
_WAITING: Final = f"""
    WITH RECURSIVE place AS (
        (SELECT destination, db_schema, typed FROM onramp.waiting ORDER BY 1, 2, 3 LIMIT 1)
        UNION ALL
        SELECT next.* FROM place, LATERAL (
            SELECT w.destination, w.db_schema, w.typed FROM onramp.waiting w
            WHERE (w.destination, w.db_schema, w.typed) > (place.destination, place.db_schema, place.typed)
            ORDER BY 1, 2, 3 LIMIT 1) next
    )
    SELECT w.topic_id::text, w.destination, w.event_type, w.code, w.added_at, h.kind, h.state, h.sqlstate,
           h.since
    FROM place CROSS JOIN LATERAL (
        SELECT * FROM onramp.waiting w WHERE w.destination = place.destination
            AND w.db_schema = place.db_schema AND w.typed = place.typed AND {_RECEIPT}) w
    LEFT JOIN LATERAL (
        SELECT kind, state, sqlstate, since FROM onramp.holds
        WHERE state <> 'watched' AND (kind, name) IN (('table', w.destination), ('type', w.event_type))
        ORDER BY kind DESC LIMIT 1) h ON true
"""  # noqa: S608 - our own words
_STAGED: Final = f"""
    SELECT topic_id::text, destination, attempt, job::text, "to", staged_at FROM onramp.replays
    WHERE {_RECEIPT}
"""  # noqa: S608 - our own words
_REPLAYED: Final = f"""
    SELECT topic_id::text, destination, attempt, outcome, reason::text, job::text, "to",
           sha256 IS NOT NULL, at
    FROM onramp.replayed WHERE {_RECEIPT} ORDER BY destination, attempt
"""  # noqa: S608 - our own words
_HALT: Final = "SELECT reason, since FROM onramp.halts"
#: The tables that events of this partition went to, also those that are routed otherwise today.
_TABLES: Final = """
    SELECT DISTINCT destination FROM onramp.totals
    WHERE topic = %(topic)s AND partition = %(partition)s AND destination <> ''
"""


class LedgerRow(NamedTuple):
    """The next unsettled offset of a topic generation, and the routes that the receipt was settled under."""

    topic_id: str
    next_offset: int
    digest: str | None


class InOutbox(NamedTuple):
    """A parked event that is not on `onramp.user_errors` yet."""

    topic_id: str
    destination: str
    reason: dict[str, Any]


class InWaiting(NamedTuple):
    """An event in `onramp.waiting`, and the hold that it waits behind, if that still exists."""

    topic_id: str
    destination: str
    event_type: str
    code: str
    since: datetime
    hold: str | None
    state: str | None
    sqlstate: str | None
    hold_since: datetime | None


class Staged(NamedTuple):
    """A replay that the writer has not taken yet."""

    topic_id: str
    destination: str
    attempt: int
    job: str
    to: str | None
    at: datetime


class Attempt(NamedTuple):
    """The result of a replay; `is_edited`: an operator's fix changed the payload."""

    topic_id: str
    destination: str
    attempt: int
    outcome: str
    reason: dict[str, Any] | None
    job: str
    to: str | None
    is_edited: bool
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseFacts:
    """The facts of one database about a receipt, of all generations of its topic that it knows."""

    ledger: Sequence[LedgerRow] = ()
    outbox: Sequence[InOutbox] = ()
    waiting: Sequence[InWaiting] = ()
    staged: Sequence[Staged] = ()
    attempts: Sequence[Attempt] = ()
    #: Reason and time of the database's halt.
    halt: tuple[str, datetime] | None = None
    #: Tables (schema.table) that events of the partition went to.
    tables: frozenset[str] = field(default_factory=frozenset)


def facts(database: str, dsn: str, receipt: Receipt) -> DatabaseFacts:
    """Return the facts.  Raises `InfrastructureError`, also if no writer has prepared the database."""
    values = {"topic": receipt.source.topic, "partition": receipt.source.partition, "offset": receipt.offset}
    with reading(f"database {database}", dsn) as conn, conn.cursor() as cursor:

        def rows(statement: str) -> list[tuple[Any, ...]]:
            cursor.execute(statement, values)
            return cursor.fetchall()

        return DatabaseFacts(
            ledger=[LedgerRow(*row) for row in rows(_LEDGER)],
            outbox=[InOutbox(i, name, orjson.loads(error)) for i, name, error in rows(_OUTBOX)],
            waiting=[InWaiting(*row) for row in rows(_WAITING)],
            staged=[Staged(*row) for row in rows(_STAGED)],
            attempts=[
                Attempt(*row)._replace(reason=None if row[4] is None else orjson.loads(row[4]))
                for row in rows(_REPLAYED)
            ],
            halt=next(iter(rows(_HALT)), None),
            tables=frozenset(name for (name,) in rows(_TABLES)),
        )


@contextmanager
def reading(name: str, dsn: str) -> Iterator[connection]:
    """Lend a connection that only reads, with short timeouts; each statement is a transaction.

    `name`: of the database, for messages.  Raises `InfrastructureError`.
    """
    lent = IDLE.lent(name, dsn, PATIENCE_SECONDS, name="onramp-journey", options=_OPTIONS, is_autocommit=True)
    try:
        with lent as conn:
            yield conn
    except InfrastructureError as e:
        if name in e.detail:
            raise
        raise InfrastructureError(e.fault, f"{name}: {e.detail}") from None
    except psycopg2.Error as e:
        raise InfrastructureError(DATABASE_UNAVAILABLE, failure(name, e)) from None
