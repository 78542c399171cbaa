"""The outbox: moves parked events from a database to `onramp.user_errors` without a gap.

Parked events are written in the rows' own transaction, so each event is either landed or parked.  A row is
deleted only after the topic has its record.
"""

import logging
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from psycopg2.extensions import connection
from psycopg2.extras import execute_values

from services.writer.park import parked_topic
from services.writer.park.parked_topic import NotPublished, ParkedRecord
from services.writer.postgres import rows_by_bytes
from services.writer.postgres.database import Database
from services.writer.postgres.pool import transaction
from shared import failpoints
from shared.kafka_read.offsets import Partition
from shared.kafka_security import Brokers

log = logging.getLogger(__name__)

#: Maximum rows, and maximum bytes of values, of one INSERT.
_BUFFER_ROWS: Final = 500
_BUFFER_BYTES: Final = 4 << 20
#: Maximum rows, and maximum bytes of values, of one transaction that relays them.
_PAGE_ROWS: Final = 500
_PAGE_BYTES: Final = 16 << 20
#: Seconds until rows that were too large are tried again: an operator may raise the topic's limit.
_RETRY_SECONDS: Final = 60.0
_ANY_SIZE: Final = 1 << 31
_ADD: Final = """
    INSERT INTO onramp.outbox (topic_id, topic, partition, "offset", destination, value, error)
    VALUES %s ON CONFLICT DO NOTHING
"""
#: Paged by key: deleted rows are dead until a vacuum, and else each page would scan all of them again.
_TAKE: Final = rows_by_bytes.bytes_of(
    """
    SELECT ctid, topic_id, topic, partition, "offset", destination, value, error::text
    FROM onramp.outbox WHERE (topic_id, partition, "offset", destination) > (%s::uuid, %s, %s, %s)
        AND coalesce(octet_length(value), 0) < %s
    ORDER BY topic_id, partition, "offset", destination LIMIT %s FOR UPDATE SKIP LOCKED""",
    'topic_id, partition, "offset", destination',
)
_REMOVE: Final = "DELETE FROM onramp.outbox WHERE ctid = ANY(%s::tid[])"
_TOO_LARGE: Final = "SELECT count(*) FROM onramp.outbox WHERE octet_length(value) >= %s"
_Key = tuple[str, int, int, str]
_START: Final[_Key] = ("00000000-0000-0000-0000-000000000000", -1, -1, "")


def add(conn: connection, topic_id: str, record: ParkedRecord) -> None:
    """Put `record`, of the topic with Kafka's UUID `topic_id`, into the outbox; a repeat has no effect."""
    buffer = Buffer(conn)
    buffer.add(topic_id, record)
    buffer.flush()


class Buffer:
    """A buffer of records for the outbox, which one statement writes."""

    def __init__(self, conn: connection) -> None:
        self._conn = conn
        self._rows: list[tuple[Any, ...]] = []
        self._bytes = 0

    def add(self, topic_id: str, record: ParkedRecord) -> None:
        """Add `record`, of the topic with Kafka's UUID `topic_id`; a repeat has no effect."""
        p, error = record.partition, record.error.decode()
        self._rows.append(
            (topic_id, p.topic, p.number, record.offset, record.destination, record.value, error)
        )
        self._bytes += len(record.value or b"") + len(error)
        if len(self._rows) >= _BUFFER_ROWS or self._bytes >= _BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the added records."""
        if self._rows:
            with self._conn.cursor() as cursor:
                execute_values(cursor, _ADD, self._rows, page_size=len(self._rows))
            self._rows, self._bytes = [], 0


@dataclass(slots=True)
class _Stuck:
    """Rows of a database that are too large: the minimum size, the time of the next try, the logged keys."""

    min_size: int = _ANY_SIZE
    until: float = 0.0
    logged: set[bytes] = field(default_factory=set)

    def note(self, left: NotPublished) -> None:
        """Skip events of that size for `_RETRY_SECONDS`, and log each once."""
        self.min_size = min(len(r.value or b"") for r in left.records)
        self.until = time.monotonic() + _RETRY_SECONDS
        for record in left.records:
            if record.key not in self.logged:
                self.logged.add(record.key)
                log.error(
                    "a parked event is too large for its topic and waits in the outbox of its database",
                    extra={
                        "event": record.key.decode(),
                        "code": left.error.fault.code,
                        "reason": left.error.detail,
                        "mend": left.error.fault.fix,
                    },
                )


_stuck: Final[dict[str, _Stuck]] = defaultdict(_Stuck)


def too_large(conn: connection, name: str) -> int:
    """Return the number of events of database `name` that the topic rejected.  One query at most."""
    min_size = _stuck[name].min_size
    if min_size == _ANY_SIZE:
        return 0
    with conn.cursor() as cursor:
        cursor.execute(_TOO_LARGE, (min_size,))
        ((events,),) = cursor.fetchall()
        return int(events)


def relay(database: Database, brokers: Brokers) -> int:
    """Move all rows of the outbox of `database` to the topic; return the number of moved rows.

    Rows that are too large for the topic stay, and are tried again after a while.  Raises
    `InfrastructureError`; then a row that was published and not deleted is published again, under
    the same key.
    """
    moved, in_pass, after = 0, 0, _START
    while True:
        page = _relay(database, brokers, after)
        moved, in_pass = moved + page.moved, in_pass + page.moved
        if page.next:
            after = page.next
        elif after == _START or not in_pass:
            return moved
        else:  # once more from the start, for rows that were added behind the current key
            in_pass, after = 0, _START


class _Page(NamedTuple):
    """The number of moved rows, and the last row's key if more may follow."""

    moved: int
    next: _Key | None


def _relay(database: Database, brokers: Brokers, after: _Key) -> _Page:
    """Move one page of rows behind `after`, in one transaction."""
    stuck = _stuck[database.name]
    max_size = stuck.min_size if time.monotonic() < stuck.until else _ANY_SIZE
    with transaction(database, "driver") as conn, conn.cursor() as cursor:
        cursor.execute(_TAKE, (*after, max_size, _PAGE_ROWS, _PAGE_BYTES))
        rows = cursor.fetchall()
        records = {row[0]: _record(*row[2:8]) for row in rows}
        left = parked_topic.publish(brokers, list(records.values()))
        failpoints.reach("writer.after_outbox_publish")
        too_large_keys = {r.key for r in left.records} if left else set()
        moved = [ctid for ctid, record in records.items() if record.key not in too_large_keys]
        cursor.execute(_REMOVE, (moved,))
    if left:
        stuck.note(left)
    if len(rows) < _PAGE_ROWS and sum(len(row[6] or b"") for row in rows) < _PAGE_BYTES:
        return _Page(len(moved), None)
    _, topic_id, _, number, offset, destination, *_ = rows[-1]
    return _Page(len(moved), (topic_id, number, offset, destination))


def _record(topic: str, number: int, *rest: Any) -> ParkedRecord:
    offset, destination, value, error = rest
    return ParkedRecord(
        Partition(topic, number),
        offset,
        destination=destination,
        value=None if value is None else bytes(value),
        error=error.encode(),
    )
