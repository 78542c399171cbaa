"""`onramp.replays`, which the admin service stages, and `onramp.replayed`, the outcome of each attempt.

Invariant: an attempt lands only if its row in `onramp.replayed` is new (the model's rule `attempt_new`) and
no other attempt at the event has landed.  Old staged rows are dropped (`old_dropped`), because a restored
dump may bring them back.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

import psycopg2
from psycopg2.extensions import connection

from services.writer.postgres import rows_by_bytes
from shared import wire
from shared.kafka_read.offsets import Partition
from shared.postgres import arrays

#: Maximum bytes taken at once; as rows and as an Arrow table they use several times as much memory.
MAX_BYTES: Final = 16 << 20
KEY: Final = 'topic_id, partition, "offset", destination'
EVENT: Final = 'topic_id, topic, partition, "offset", destination, "to", value, received_at, timestamp'
_STAGED: Final = f"""
    SELECT ctid, {EVENT}, staged_at < now() - interval '15 minutes' AS is_old,
        EXISTS (SELECT FROM onramp.replayed d WHERE (d.topic_id, d.partition, d."offset", d.destination)
            = (r.topic_id, r.partition, r."offset", r.destination)
            AND (d.attempt = r.attempt OR d.outcome IN ('landed', 'duplicate'))) AS is_known
    FROM onramp.replays r
"""  # noqa: S608 - our own words
#: By keyset: landed events leave dead rows, and else each step would scan all of them again.
#: Rows that a cancel or another writer has locked are skipped.
_TAKE: Final = rows_by_bytes.bytes_of(
    f"""{_STAGED}
    WHERE ({KEY}) > (%s::uuid, %s, %s, %s) AND coalesce("to", substr(destination, %s)) <> ALL (%s)
    ORDER BY {KEY} LIMIT %s FOR UPDATE OF r SKIP LOCKED""",
    KEY,
)
_RETAKE: Final = f"{_STAGED} WHERE ({KEY}) = (%s::uuid, %s, %s, %s) FOR UPDATE OF r SKIP LOCKED"
_REMOVE: Final = "DELETE FROM onramp.replays WHERE ctid = ANY (%s::tid[])"
#: From the locked rows.  With LIMIT each row is read by its ctid; a join would read the whole table.
_RECORD: Final = """
    INSERT INTO onramp.replayed (topic_id, topic, partition, "offset", destination, attempt, outcome, reason,
                                 job, "to", sha256)
    SELECT r.topic_id, r.topic, r.partition, r."offset", r.destination, r.attempt, v.outcome, v.reason,
           r.job, coalesce(r."to", v."to"), r.sha256
    FROM unnest(%s::tid[], %s::text[], %s::jsonb[], %s::text[]) v (ctid, outcome, reason, "to"),
        LATERAL (SELECT * FROM onramp.replays s WHERE s.ctid = v.ctid LIMIT 1) r
"""


class UnstorableError(Exception):
    """The database cannot store an outcome, because of the outcome's text."""


class Key(NamedTuple):
    """The key of a parked event and its destination, in the order in which events land."""

    topic_id: str
    partition: int
    offset: int
    destination: str


#: The key before every event.
START: Final = Key("00000000-0000-0000-0000-000000000000", -1, -1, "")


@dataclass(frozen=True, slots=True)
class ParkedEvent:
    """A parked event that is to land in `to`, if given, and else in its `destination`."""

    topic_id: str
    partition: Partition
    offset: int
    destination: str
    _: KW_ONLY
    to: str | None
    value: bytes | None
    received_at: datetime | None
    timestamp: datetime

    @property
    def key(self) -> Key:
        """Return the key of the event and its destination."""
        return Key(self.topic_id, self.partition.number, self.offset, self.destination)

    @property
    def is_sorted_again(self) -> bool:
        """Return whether only the current routes determine the event's table."""
        return self.to is None and wire.is_refused(self.destination)

    @classmethod
    def of(cls, row: Sequence[Any]) -> "ParkedEvent":
        """Return the event in a row with the columns `EVENT`."""
        topic_id, topic, number, offset, destination, to, value, received_at, timestamp = row
        partition, value = Partition(topic, number), None if value is None else bytes(value)
        return cls(
            topic_id,
            partition,
            offset,
            destination,
            to=to,
            value=value,
            received_at=received_at,
            timestamp=timestamp,
        )


@dataclass(frozen=True, slots=True)
class Staged:
    """A row of `onramp.replays`, locked."""

    ctid: str
    event: ParkedEvent
    _: KW_ONLY
    is_old: bool
    is_known: bool


class AttemptOutcome(NamedTuple):
    """The outcome of an attempt: `landed`, `duplicate`, or `parked` with the reason (JSON).

    `sorted`: the reason names the database to which the event belongs.  `to`: the table (schema.table) in
    which the event landed, if it was parked for no table.
    """

    kind: str
    reason: bytes | None = None
    to: str | None = None


def take(conn: connection, database: str, held: Collection[str], after: Key, limit: int) -> list[Staged]:
    """Lock and return the first rows behind `after` that are for none of the tables `held` (schema.table).

    All returned rows but the last together have less than `MAX_BYTES`.
    """
    prefix = len(database) + 2
    with conn.cursor() as cursor:
        cursor.execute(_TAKE, (*after, prefix, list(held), limit, MAX_BYTES))
        return [_staged(row) for row in cursor.fetchall()]


def retake(conn: connection, key: Key) -> list[Staged]:
    """Lock and return the row of `key`, if it is still staged."""
    with conn.cursor() as cursor:
        cursor.execute(_RETAKE, key)
        return [_staged(row) for row in cursor.fetchall()]


def _staged(row: Sequence[Any]) -> Staged:
    ctid, *event, is_old, is_known = row[:12]
    return Staged(ctid, ParkedEvent.of(event), is_old=is_old, is_known=is_known)


def remove(conn: connection, rows: Iterable[Staged]) -> None:
    """Remove `rows`, which landed, failed again, or must not land."""
    with conn.cursor() as cursor:
        cursor.execute(_REMOVE, (arrays.texts(row.ctid for row in rows),))


@contextmanager
def storing() -> Iterator[None]:
    """Raise `UnstorableError` when Postgres or its driver rejects a value of the block."""
    try:
        yield
    except (psycopg2.DataError, ValueError) as e:
        raise UnstorableError(type(e).__name__) from None


def record(conn: connection, outcomes: Iterable[tuple[Staged, AttemptOutcome]]) -> None:
    """Write the outcomes of attempts.  Raises a unique violation if one is recorded already.

    Raises `UnstorableError` when the database cannot store an outcome.
    """
    rows = [
        (of.ctid, outcome.kind, None if outcome.reason is None else outcome.reason.decode(), outcome.to)
        for of, outcome in outcomes
    ]
    if rows:
        with conn.cursor() as cursor:
            with storing():
                cursor.execute(_RECORD, [arrays.texts(column) for column in zip(*rows, strict=True)])
            if cursor.rowcount != len(rows):
                raise LookupError("rows of onramp.replays that this transaction has locked are missing")
