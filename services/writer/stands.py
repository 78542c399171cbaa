"""Where the writer stands in each partition that it has adopted."""

from collections.abc import Mapping
from dataclasses import dataclass

from services.writer.ranges import Life, Partition


@dataclass(frozen=True, slots=True)
class Stand:
    """Where the writer is in a partition: in which life of its topic, and the next offset to plan."""

    topic_id: str
    next_offset: int


def by_life(stands: Mapping[Partition, Stand]) -> dict[Life, int]:
    """The next offsets to plan."""
    return {Life(stand.topic_id, p): stand.next_offset for p, stand in stands.items()}
