"""Which partitions a batch is of, when more wait than it can do justice to."""

from collections.abc import Mapping
from typing import Final

from services.writer.ranges import Partition

Backlog = Mapping[Partition, tuple[int, int]]
#: Spark keeps a consumer for each partition, and 300 of them leave a heap of 768 MB little else.
MOST_READERS: Final = 300
#: A partition has a price in each batch that Spark reads: so many events at once are worth it.
WORTH: Final = 5_000


class Turns:
    """Partitions that wait take turns: those that were not chosen for longest come next."""

    def __init__(self, small_batch: int, most: int = MOST_READERS, worth: int = WORTH) -> None:
        """Up to `small_batch` events the driver reads by itself, of however many partitions."""
        self._small_batch = small_batch
        self._most = most
        self._worth = worth
        self._turn = 0
        self._last: dict[Partition, int] = {}

    def next(self, backlog: Backlog, limit: int) -> Backlog:
        """Those of `backlog` (partition to start and end) whose turn it is in a batch of at most `limit`."""
        waiting = {p: span for p, span in backlog.items() if span[1] > span[0]}
        chosen: dict[Partition, tuple[int, int]] = {}
        events = 0
        for p in sorted(waiting, key=lambda p: (self._last.get(p, 0), p)):
            start, end = waiting[p]
            worth = min(end - start, self._worth)
            too_many = len(chosen) >= self._most and events + worth > self._small_batch
            if events >= limit or too_many:
                break
            chosen[p] = (start, start + worth)
            events += worth
        self._last = {p: turn for p, turn in self._last.items() if p in backlog}
        for p in chosen:
            self._turn += 1
            self._last[p] = self._turn
        if len(chosen) > self._most:  # the driver reads these, and no more of them
            return chosen
        return {p: waiting[p] for p in chosen}
