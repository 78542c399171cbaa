"""Which partitions a large batch is of, when more wait than it can have readers."""

from collections.abc import Mapping
from typing import Final

from services.writer.ranges import Partition

Backlog = Mapping[Partition, tuple[int, int]]
#: Spark keeps a consumer for each partition, and 300 of them leave a heap of 768 MB little else.
MOST_READERS: Final = 300


class Turns:
    """Partitions that wait take turns: those that were not chosen for longest come next."""

    def __init__(self, small_batch: int, most: int = MOST_READERS) -> None:
        """Up to `small_batch` events the driver reads all partitions by itself, however many."""
        self._small_batch = small_batch
        self._most = most
        self._turn = 0
        self._last: dict[Partition, int] = {}

    def next(self, backlog: Backlog) -> Backlog:
        """Those of `backlog` (partition to start and end) whose turn it is."""
        waiting = {p: span for p, span in backlog.items() if span[1] > span[0]}
        if len(waiting) <= self._most or sum(end - at for at, end in waiting.values()) <= self._small_batch:
            return waiting
        chosen = sorted(waiting, key=lambda p: (self._last.get(p, 0), p))[: self._most]
        for p in chosen:
            self._turn += 1
            self._last[p] = self._turn
        return {p: waiting[p] for p in chosen}
