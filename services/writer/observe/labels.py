"""The labels of series: the partition of a topic, and the event type of a topic or a table."""

from services.writer.model.offsets import Partition
from services.writer.observe.series import Labels
from services.writer.persist import landing
from shared import wire


def labels_of(partition: Partition) -> Labels:
    """Return the topic and the number of a partition."""
    return partition.topic, str(partition.number)


def event_type_of(topic: str, table: str) -> str:
    """Return the event type that a landing table or a topic is named after; empty when neither is."""
    if table.startswith(f"{landing.SCHEMA}."):
        return table.removeprefix(f"{landing.SCHEMA}.")
    prefix = wire.topic_of("")
    return topic.removeprefix(prefix) if topic.startswith(prefix) else ""
