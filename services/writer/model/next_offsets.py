"""The next offset of each partition that the writer has adopted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from shared.kafka_read.offsets import Generation, Partition


@dataclass(frozen=True, slots=True)
class Position:
    """The next offset to plan of a partition, and the topic generation (`topic_id`) that it belongs to."""

    topic_id: str
    next_offset: int


class Committed(NamedTuple):
    """The offset that the group committed, and its topic generation; empty: the current generation."""

    offset: int
    generation: str = ""


def by_generation(positions: Mapping[Partition, Position]) -> dict[Generation, int]:
    """Return the next offsets to plan, by partition of a topic generation."""
    return {Generation(position.topic_id, p): position.next_offset for p, position in positions.items()}
