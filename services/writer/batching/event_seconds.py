"""Bounds a partition's events in a batch by the time that its events take to land.

A batch ends for all partitions at once, and some events cost hundreds of times as much as others: packets
with a table of their own each, or a table with slow triggers.  Without a time bound one such partition would
delay all others.  The cost is known after a partition's first large range, so its first batch is unbounded.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from services.writer.settle.work_order import TaskReport
from shared.kafka_read.offsets import Partition

Span = tuple[int, int]
#: Maximum seconds of a batch for one partition.
MAX_SECONDS: Final = 0.5
#: Minimum events for an estimate, unless the partition may have fewer: every table costs some milliseconds,
#: even with few rows.
_FEW: Final = 100
#: Events that every partition may have in a batch, so that it progresses when its database is slow.
_MIN_EVENTS: Final = 10
_DECAY: Final = 0.5


class EventSeconds:
    """Tracks the seconds per event of each partition's last events."""

    def __init__(self, max_seconds: float = MAX_SECONDS) -> None:
        self._max_seconds = max_seconds
        self._seconds_per_event: dict[Partition, float] = {}

    def count(self, reports: Iterable[TaskReport]) -> None:
        """Update the estimates from tasks' reports: longer times at once, shorter ones in a few batches."""
        seconds: dict[Partition, float] = defaultdict(float)
        read: Counter[Partition] = Counter()
        for report in reports:
            seconds[report.range_of] += report.seconds
            read[report.range_of] += report.read
        for p, events in read.items():
            if events >= min(_FEW, self._max_events(p)):
                learned = max(seconds[p] / events, self._seconds_per_event.get(p, 0.0) * _DECAY)
                self._seconds_per_event[p] = learned

    def bound(self, spans: Mapping[Partition, Span]) -> dict[Partition, Span]:
        """Return `spans` (partition to start and end), each cut to the events of a partition's time share."""
        return {p: (start, min(end, start + self._max_events(p))) for p, (start, end) in spans.items()}

    def forget(self, p: Partition) -> None:
        """Remove a partition that is no longer read."""
        self._seconds_per_event.pop(p, None)

    def _max_events(self, p: Partition) -> int:
        each = self._seconds_per_event.get(p, 0.0)
        return max(int(self._max_seconds / each), _MIN_EVENTS) if each else 1 << 62
