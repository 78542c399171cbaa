"""How long the events of a partition take to land: one whose events take long gets fewer of them in a batch.

A batch ends for all partitions at once, and some events cost hundreds of times what others do: packets that
each name a table of their own, a table with slow triggers.  Without a bound in time one such partition would
hold up all others.  A partition's cost is known after its first large range: the first batch is not bounded.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from services.writer.model.offsets import Partition
from services.writer.settle.work_order import TaskReport

Span = tuple[int, int]
#: Seconds of a batch that one partition may take.
MAX_SECONDS: Final = 0.5
#: Fewer events tell nothing: a table costs some milliseconds however few its rows are.
_FEW: Final = 100
#: Every partition may bring as many, so that it goes on when its database is slow.
_MIN_EVENTS: Final = 100
_DECAY: Final = 0.5


class EventSeconds:
    """The seconds that each partition's last events took."""

    def __init__(self, max_seconds: float = MAX_SECONDS) -> None:
        self._max_seconds = max_seconds
        self._seconds_per_event: dict[Partition, float] = {}

    def count(self, reports: Iterable[TaskReport]) -> None:
        """Learn from what tasks report: longer times at once, shorter ones within a few batches."""
        seconds: dict[Partition, float] = defaultdict(float)
        read: Counter[Partition] = Counter()
        for report in reports:
            seconds[report.range_of] += report.seconds
            read[report.range_of] += report.read
        for p, events in read.items():
            if events >= _FEW:
                learned = max(seconds[p] / events, self._seconds_per_event.get(p, 0.0) * _DECAY)
                self._seconds_per_event[p] = learned

    def bound(self, spans: Mapping[Partition, Span]) -> dict[Partition, Span]:
        """Return `spans` (partition to start and end), each cut to what may land in a partition's share."""
        return {p: (start, min(end, start + self._most(p))) for p, (start, end) in spans.items()}

    def forget(self, p: Partition) -> None:
        """Drop a partition that is not read any more."""
        self._seconds_per_event.pop(p, None)

    def _most(self, p: Partition) -> int:
        each = self._seconds_per_event.get(p, 0.0)
        return max(int(self._max_seconds / each), _MIN_EVENTS) if each else 1 << 62
