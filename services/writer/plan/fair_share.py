"""Which partitions a batch is of, when more wait than it can do justice to."""

from collections.abc import Mapping
from typing import Final

from services.writer.model.offsets import Partition

Backlog = Mapping[Partition, tuple[int, int]]
#: Spark keeps a consumer for each partition, and 300 of them leave a heap of 768 MB little else.
MOST_READERS: Final = 300
#: A partition has a price in each batch that Spark reads: so many events at once are worth it.
WORTH: Final = 5_000
#: What has no more than this is not behind: it comes at once, beside whoever is.
LITTLE: Final = 100


class FairShare:
    """Partitions with much take turns, those that were not chosen for longest first; others come along."""

    def __init__(self, small_batch: int, worth: int = WORTH, little: int = LITTLE) -> None:
        """Up to `small_batch` events the driver reads by itself, of however many partitions."""
        self._small_batch = small_batch
        self._worth = worth
        self._little = little
        self._turn = 0
        self._last: dict[Partition, int] = {}

    def next(self, backlog: Backlog, limit: int, readers: int = MOST_READERS) -> Backlog:
        """Those of `backlog` (partition to start and end) whose turn it is in a batch of at most `limit`.

        They are more than `readers` only if the driver reads them.
        """
        waiting = {p: span for p, span in backlog.items() if span[1] > span[0]}
        sizes = {p: end - start for p, (start, end) in waiting.items()}
        if sum(sizes.values()) <= self._small_batch:
            return waiting
        by_turn = sorted(waiting, key=lambda p: (self._last.get(p, 0), p))
        much = [p for p in by_turn if sizes[p] > self._little]
        little = [p for p in by_turn if sizes[p] <= self._little]
        chosen: list[Partition] = []
        events = 0
        for p in little:
            of_the_driver = not much and events + sizes[p] <= self._small_batch
            if len(chosen) >= readers - min(len(much), readers // 2) and not of_the_driver:
                break
            chosen.append(p)
            events += sizes[p]
        for place, p in enumerate(much):
            if len(chosen) >= readers or (place and events >= limit):
                break
            chosen.append(p)
            events += min(sizes[p], self._worth)
        for p in chosen:
            self._turn += 1
            self._last[p] = self._turn
        return {p: waiting[p] for p in chosen}

    def forget(self, partition: Partition) -> None:
        """It is there no more."""
        self._last.pop(partition, None)
