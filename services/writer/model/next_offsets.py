"""Where the writer stands in each partition that it has adopted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from services.writer.model.offsets import Incarnation, Partition


@dataclass(frozen=True, slots=True)
class Position:
    """Where the writer is in a partition: in which life of its topic, and the next offset to plan."""

    topic_id: str
    next_offset: int


class Committed(NamedTuple):
    """Where the group stands, and in which life of the partition; empty: in the topic's own."""

    offset: int
    incarnation: str = ""


def by_incarnation(positions: Mapping[Partition, Position]) -> dict[Incarnation, int]:
    """The next offsets to plan."""
    return {Incarnation(position.topic_id, p): position.next_offset for p, position in positions.items()}
