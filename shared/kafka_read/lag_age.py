"""How far a reader of topics is behind, in seconds, from samples of the topics' ends."""

from collections import deque
from collections.abc import Mapping
from typing import Final

from shared.kafka_read.offsets import Partition

#: Samples of ends; at one a second, ten minutes.
_MAX_SAMPLES: Final = 600


class LagAge:
    """How far a reader is behind: the age of the oldest end that it has not reached."""

    def __init__(self) -> None:
        self._ends: deque[tuple[float, dict[Partition, int]]] = deque()

    def seconds(self, ends: Mapping[Partition, int], positions: Mapping[Partition, int], now: float) -> float:
        """Add the present `ends`; return the age of the oldest that `positions` have not reached."""
        self._ends.append((now, dict(ends)))
        while self._ends and all(positions.get(p, 0) >= end for p, end in self._ends[0][1].items()):
            self._ends.popleft()
        if len(self._ends) > _MAX_SAMPLES:  # the oldest stays: its age is the result
            self._ends = deque([self._ends[0], *list(self._ends)[2::2]])
        return now - self._ends[0][0] if self._ends else 0.0
