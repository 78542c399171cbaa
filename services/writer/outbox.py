"""The outbox: parked events leave a database for `onramp.user_errors` without a gap.

They are written in the rows' own transaction, so an event is never both landed and parked,
never neither; a row is removed only after the topic has its record.
"""

from typing import Final

from psycopg2.extensions import connection

from services.writer import user_errors, within
from services.writer.pool import transaction
from services.writer.postgres import Database
from services.writer.ranges import Partition
from services.writer.user_errors import ParkedRecord
from shared import failpoints
from shared.kafka_security import Brokers

_AT_ONCE: Final = 500
_MOST_BYTES: Final = 16 << 20
_ADD: Final = """
    INSERT INTO onramp.outbox (topic_id, topic, partition, "offset", destination, value, error)
    VALUES (%s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT DO NOTHING
"""
#: By keyset: what was relayed leaves dead rows, and each step would walk over all of them again.
_TAKE: Final = within.bytes_of(
    """
    SELECT ctid, topic_id, topic, partition, "offset", destination, value, error::text
    FROM onramp.outbox WHERE (topic_id, partition, "offset", destination) > (%s::uuid, %s, %s, %s)
    ORDER BY topic_id, partition, "offset", destination LIMIT %s FOR UPDATE SKIP LOCKED""",
    'topic_id, partition, "offset", destination',
)
_REMOVE: Final = "DELETE FROM onramp.outbox WHERE ctid = ANY(%s::tid[])"
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


def relay(database: Database, brokers: Brokers) -> int:
    """Move what is in the outbox of `database` to the topic.  Returns how many.

    Raises `InfrastructureError`; what was published and not removed is published again
    under the same key.
    """
    moved, after = 0, _BEGIN
    while True:
        keys, size = _relay(database, brokers, after)
        moved += len(keys)
        if len(keys) == _AT_ONCE or size >= _MOST_BYTES:
            after = keys[-1]
        elif after == _BEGIN:
            return moved
        else:  # once more from the begin, for what has come meanwhile
            after = _BEGIN


def _relay(database: Database, brokers: Brokers, after: _Key) -> tuple[list[_Key], int]:
    """Move the first records behind `after`; returns their keys, and how many bytes they have."""
    with transaction(database, "driver") as conn, conn.cursor() as cursor:
        cursor.execute(_TAKE, (*after, _AT_ONCE, _MOST_BYTES))
        found = cursor.fetchall()
        user_errors.publish(
            brokers,
            [
                ParkedRecord(
                    Partition(topic, number),
                    offset,
                    destination,
                    None if value is None else bytes(value),
                    error.encode(),
                )
                for _, _, topic, number, offset, destination, value, error, _ in found
            ],
        )
        failpoints.reach("writer.after_outbox_publish")
        cursor.execute(_REMOVE, ([row[0] for row in found],))
    keys = [(topic_id, number, offset, where) for _, topic_id, _, number, offset, where, *_ in found]
    return keys, sum(len(row[6] or b"") for row in found)
