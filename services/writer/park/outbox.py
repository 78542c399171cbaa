"""The outbox: parked events leave a database for `onramp.user_errors` without a gap.

They are written in the rows' own transaction, so an event is never both landed and parked,
never neither; a row is removed only after the topic has its record.
"""

import logging
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from psycopg2.extensions import connection

from services.writer.model.offsets import Partition
from services.writer.park import parked_topic
from services.writer.park.parked_topic import Left, ParkedRecord
from services.writer.postgres import rows_by_bytes
from services.writer.postgres.database import Database
from services.writer.postgres.pool import transaction
from shared import failpoints
from shared.kafka_security import Brokers

log = logging.getLogger(__name__)

_AT_ONCE: Final = 500
_MOST_BYTES: Final = 16 << 20
#: So long what the topic did not take is left alone; a person may let it take more meanwhile.
_AGAIN_SECONDS: Final = 60.0
_ANY_SIZE: Final = 1 << 31
_ADD: Final = """
    INSERT INTO onramp.outbox (topic_id, topic, partition, "offset", destination, value, error)
    VALUES (%s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT DO NOTHING
"""
#: By keyset: what was relayed leaves dead rows, and each step would walk over all of them again.
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
_BEGIN: Final[_Key] = ("00000000-0000-0000-0000-000000000000", -1, -1, "")


def add(conn: connection, topic_id: str, record: ParkedRecord) -> None:
    """Put `record`, of the topic with that id, into the outbox."""
    p = record.partition
    row = (
        topic_id,
        p.topic,
        p.number,
        record.offset,
        record.destination,
        record.value,
        record.error.decode(),
    )
    with conn.cursor() as cursor:
        cursor.execute(_ADD, row)


@dataclass(slots=True)
class _Stuck:
    """What the topic did not take of a database: its smallest value, until when, and what was said."""

    least: int = _ANY_SIZE
    until: float = 0.0
    said: set[bytes] = field(default_factory=set)

    def note(self, left: Left) -> None:
        """Leave events of that size alone for a while, and say it once of each."""
        self.least = min(len(r.value or b"") for r in left.records)
        self.until = time.monotonic() + _AGAIN_SECONDS
        for record in left.records:
            if record.key not in self.said:
                self.said.add(record.key)
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
    """How many events the outbox of database `name` has now that the topic did not take."""
    least = _stuck[name].least
    if least == _ANY_SIZE:
        return 0
    with conn.cursor() as cursor:
        cursor.execute(_TOO_LARGE, (least,))
        ((events,),) = cursor.fetchall()
        return int(events)


def relay(database: Database, brokers: Brokers) -> int:
    """Move what is in the outbox of `database` to the topic.  Returns how many.

    What is too large for the topic stays where it is, and is tried again after a while.
    Raises `InfrastructureError`; what was published and not removed is published again
    under the same key.
    """
    moved, in_pass, after = 0, 0, _BEGIN
    while True:
        page = _relay(database, brokers, after)
        moved, in_pass = moved + page.moved, in_pass + page.moved
        if page.next:
            after = page.next
        elif after == _BEGIN or not in_pass:
            return moved
        else:  # once more from the begin, for what has come meanwhile
            in_pass, after = 0, _BEGIN


class _Page(NamedTuple):
    """How many records have left, and the last one's key if there may be more behind it."""

    moved: int
    next: _Key | None


def _relay(database: Database, brokers: Brokers, after: _Key) -> _Page:
    """Move the first records behind `after`."""
    stuck = _stuck[database.name]
    least = stuck.least if time.monotonic() < stuck.until else _ANY_SIZE
    with transaction(database, "driver") as conn, conn.cursor() as cursor:
        cursor.execute(_TAKE, (*after, least, _AT_ONCE, _MOST_BYTES))
        found = cursor.fetchall()
        records = {row[0]: _record(*row[2:8]) for row in found}
        left = parked_topic.publish(brokers, list(records.values()))
        failpoints.reach("writer.after_outbox_publish")
        stay = {r.key for r in left.records} if left else set()
        gone = [at for at, record in records.items() if record.key not in stay]
        cursor.execute(_REMOVE, (gone,))
    if left:
        stuck.note(left)
    if len(found) < _AT_ONCE and sum(len(row[6] or b"") for row in found) < _MOST_BYTES:
        return _Page(len(gone), None)
    _, life, _, number, offset, destination, *_ = found[-1]
    return _Page(len(gone), (life, number, offset, destination))


def _record(topic: str, number: int, *rest: Any) -> ParkedRecord:
    offset, destination, value, error = rest
    kept = None if value is None else bytes(value)
    return ParkedRecord(Partition(topic, number), offset, destination, kept, error.encode())
