"""PARK of unroutable events, or destinations of events, that belong to no database.

Unroutable events go to the topic before their offset settles.  An event too large for the topic goes to the
outbox of any landing database, with its bytes and its reason.  The outbox publishes it as soon as an operator
raises the topic's limit.
"""

from collections.abc import Sequence

from services.writer.model.offsets import Partition
from services.writer.park import outbox, parked_topic
from services.writer.park.parked_topic import ParkedRecord
from services.writer.postgres.database import Database
from services.writer.postgres.pool import transaction
from services.writer.settle.work_order import WorkOrder
from services.writer.sort.sort import Unroutable
from shared.errors import OnrampError


def park(order: WorkOrder, unroutable: Sequence[tuple[Partition, Unroutable]]) -> None:
    """Store the events, and return when they are stored.  Raises `InfrastructureError`."""
    records = [
        ParkedRecord(
            p,
            u.offset,
            destination=u.destination,
            value=u.value,
            error=parked_topic.reason(
                u.error,
                p,
                u.offset,
                u.destination,
                topic_id=order.ranges[p].topic_id,
                identity=u.identity,
            ),
        )
        for p, u in unroutable
    ]
    unpublished = parked_topic.publish(order.brokers, records)
    if unpublished and not any(
        _add_to_outbox(database, order, unpublished.records) for database in order.landing
    ):
        raise unpublished.error


def _add_to_outbox(database: Database, order: WorkOrder, records: Sequence[ParkedRecord]) -> bool:
    """Return whether the outbox of `database` has stored the records.  A repeat has the same keys."""
    try:
        with transaction(database, "land") as conn:
            for record in records:
                outbox.add(conn, order.ranges[record.partition].topic_id, record)
    except OnrampError:  # the failure will show again when the database lands
        return False
    return True
