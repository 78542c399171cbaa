"""PARK of what goes nowhere: events, or destinations of them, that no database decides about.

They go to the topic before their offset settles.  One that is larger than the topic takes goes
to the outbox of a database that lands, whichever it is: its bytes and its reason are kept there,
and it leaves for the topic as soon as somebody lets that take it.
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
    """Keep them and return when they are kept.  Raises `InfrastructureError`."""
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
        _keep_in_outbox(database, order, unpublished.records) for database in order.landing
    ):
        raise unpublished.error


def _keep_in_outbox(database: Database, order: WorkOrder, records: Sequence[ParkedRecord]) -> bool:
    """Whether the outbox of `database` has them now.  A repeat has the same keys."""
    try:
        with transaction(database, "land") as conn:
            for record in records:
                outbox.add(conn, order.ranges[record.partition].topic_id, record)
    except OnrampError:  # it is asked again when it is to land
        return False
    return True
