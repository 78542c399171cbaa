"""The outbox: parked events leave a database for `onramp.user_errors` without a gap.

They are written in the rows' own transaction, so an event is never both landed and parked,
never neither; a row is removed only after the topic has its record.
"""

from typing import Final

from psycopg2.extensions import connection

from services.writer import user_errors
from services.writer.pool import transaction
from services.writer.postgres import Database
from services.writer.ranges import Partition
from services.writer.user_errors import ParkedRecord
from shared import failpoints

_AT_ONCE: Final = 500
_ADD: Final = """
    INSERT INTO onramp.outbox (topic_id, topic, partition, "offset", destination, value, error)
    VALUES (%s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT DO NOTHING
"""
_TAKE: Final = """
    SELECT ctid, topic, partition, "offset", destination, value, error::text FROM onramp.outbox
    ORDER BY topic_id, partition, "offset" LIMIT %s FOR UPDATE SKIP LOCKED
"""


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


def relay(database: Database, bootstrap: str) -> int:
    """Move what is in the outbox of `database` to the topic.  Returns how many.

    Raises `InfrastructureError`; what was published and not removed is published again
    under the same key.
    """
    moved = 0
    while True:
        with transaction(database, "driver") as conn, conn.cursor() as cursor:
            cursor.execute(_TAKE, (_AT_ONCE,))
            found = cursor.fetchall()
            user_errors.publish(
                bootstrap,
                [
                    ParkedRecord(
                        Partition(topic, number),
                        offset,
                        destination,
                        None if value is None else bytes(value),
                        error.encode(),
                    )
                    for _, topic, number, offset, destination, value, error in found
                ],
            )
            failpoints.reach("writer.after_outbox_publish")
            cursor.execute(
                "DELETE FROM onramp.outbox WHERE ctid = ANY(%s::tid[])", ([row[0] for row in found],)
            )
        moved += len(found)
        if len(found) < _AT_ONCE:
            return moved
