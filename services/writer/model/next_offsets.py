"""The next offset of each partition that the writer has adopted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from services.writer.model.offsets import Incarnation, Partition


@dataclass(frozen=True, slots=True)
class Position:
    """The next offset to plan of a partition, and of which incarnation of its topic."""

    topic_id: str
    next_offset: int


class Committed(NamedTuple):
    """The offset that the group committed, and of which incarnation; empty: the topic's present one."""

    offset: int
    incarnation: str = ""


def by_incarnation(positions: Mapping[Partition, Position]) -> dict[Incarnation, int]:
    """Return the next offsets to plan, by incarnation."""
    return {Incarnation(position.topic_id, p): position.next_offset for p, position in positions.items()}
