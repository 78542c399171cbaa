"""The fair scheduler: chooses the partitions of a batch if too many partitions have a backlog."""

from collections.abc import Mapping
from typing import Final

from shared.kafka_read.offsets import Partition

Backlog = Mapping[Partition, tuple[int, int]]
#: Maximum partitions of a batch.  Each one costs time: its plan, its ledger rows, its part of each COPY.
MAX_PARTITIONS: Final = 300
#: Events of a large backlog that are worth the cost of a partition.
MIN_EVENTS: Final = 5_000
#: Maximum total events with which a batch includes every partition with a backlog.
FEW_EVENTS: Final = 5_000
#: Maximum events of a partition that is not behind: it is read at once, in addition to large backlogs.
SMALL: Final = 100


class FairShare:
    """Chooses among large backlogs in turns, the longest unserved first; adds small backlogs at once.

    Invariant (fair turns): a chosen partition moves behind all others.  So each large backlog is chosen
    again after every other one, no matter how many events the others receive.
    """

    def __init__(
        self, few_events: int = FEW_EVENTS, min_events: int = MIN_EVENTS, small: int = SMALL
    ) -> None:
        """`few_events`: total events that are read at once from any number of partitions."""
        self._few_events = few_events
        self._min_events = min_events
        self._small = small
        self._turn = 0
        self._last: dict[Partition, int] = {}

    def next(self, backlog: Backlog, limit: int, max_partitions: int = MAX_PARTITIONS) -> Backlog:
        """Return those of `backlog` (partition to start and end) to read in a batch of `limit` events.

        Return more than `max_partitions` only if they have few events in total.  Costs a sort of the backlog.
        """
        waiting = {p: span for p, span in backlog.items() if span[1] > span[0]}
        sizes = {p: end - start for p, (start, end) in waiting.items()}
        if sum(sizes.values()) <= self._few_events:
            return waiting
        by_last_turn = sorted(waiting, key=lambda p: (self._last.get(p, 0), p))
        large = [p for p in by_last_turn if sizes[p] > self._small]
        small = [p for p in by_last_turn if sizes[p] <= self._small]
        chosen: list[Partition] = []
        events = 0
        for p in small:
            are_few = not large and events + sizes[p] <= self._few_events
            if len(chosen) >= max_partitions - min(len(large), max_partitions // 2) and not are_few:
                break
            chosen.append(p)
            events += sizes[p]
        for already, p in enumerate(large):
            if len(chosen) >= max_partitions or (already and events >= limit):
                break
            chosen.append(p)
            events += min(sizes[p], self._min_events)
        for p in chosen:
            self._turn += 1
            self._last[p] = self._turn
        return {p: waiting[p] for p in chosen}

    def forget(self, partition: Partition) -> None:
        """Remove a partition that is no longer read."""
        self._last.pop(partition, None)
