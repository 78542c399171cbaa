"""How many bytes a batch has: events are planned by number, and no index tells how large they are.

Twenty thousand events can be 5 MB or 20 GB.  Tasks report what they read, so the lengths of a
partition's next ranges follow the sizes of its last events; a partition that is not known yet
starts with short ones.  Sizes are kept by partition: a hot key with large events neither hides
among its neighbours, nor makes their ranges as short as its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from services.writer.model.offsets import Partition, Range, share
from services.writer.settle.work_order import TaskReport

Span = tuple[int, int]
#: The assumed size of a topic's events before the first one was read.
_UNKNOWN_BYTES: Final = 64 << 10
_DECAY: Final = 0.9
#: A range that so many writers started and none advanced may be too large to land: it is halved.
_CRASHES_BEFORE_HALVING: Final = 2


def range_to_repeat(next_offset: int, unfinished: Sequence[Range]) -> Range:
    """Return the range to plan again of those `unfinished` at `next_offset`: the newest, or half of it.

    A half lies within a range that was planned, so nothing of it is counted twice.
    """
    newest = unfinished[0]
    if (
        newest.start != next_offset
        or sum(r.start == next_offset for r in unfinished) < _CRASHES_BEFORE_HALVING
    ):
        return newest
    return half(newest)


def half(whole: Range) -> Range:
    """Return the first half of a range, or the one offset that it is."""
    return replace(whole, end=whole.start + (len(whole) + 1) // 2)


class ByteSizes:
    """The sizes of each partition's last events."""

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes`: what a batch should have at most."""
        self._max_bytes = max_bytes
        #: By topic and partition number.
        self._bytes_per_event: dict[str, dict[int, float]] = {}

    def count(self, reports: Iterable[TaskReport]) -> None:
        """Learn from what tasks report: larger sizes at once, smaller ones slowly."""
        largest: dict[Partition, float] = {}  # tasks may share a partition: it decays once for all reports
        for report in reports:
            if report.read:
                largest[report.range_of] = max(report.size / report.read, largest.get(report.range_of, 1.0))
        for p, size in largest.items():
            sizes = self._bytes_per_event.setdefault(p.topic, {})
            sizes[p.number] = max(size, sizes.get(p.number, 0.0) * _DECAY)

    def cut(self, planned: Sequence[Range]) -> list[Range]:
        """Return the ranges that a dead writer had `planned`, each cut to what a batch may have.

        The dead writer's plan stays on the topic beside that of the piece, which is newer and lies
        within it.
        """
        ranges = {r.partition: r for r in planned}
        spans = self.bound({p: (r.start, r.end) for p, r in ranges.items()})
        return [replace(ranges[p], start=start, end=end) for p, (start, end) in spans.items()]

    def bound(self, spans: Mapping[Partition, Span]) -> dict[Partition, Span]:
        """Return `spans` (partition to start and end), cut so that together they fit into a batch.

        Small ones stay whole, and each keeps one event at least.
        """
        event_bytes = {p: self._event_bytes(p) for p in spans}
        sizes = {p: (0, int((end - start) * event_bytes[p])) for p, (start, end) in spans.items()}
        if sum(size for _, size in sizes.values()) <= self._max_bytes:
            return dict(spans)
        shares = share(sizes, self._max_bytes)
        fitting = {p: max(int(shares.get(p, (0, 0))[1] / event_bytes[p]), 1) for p in spans}
        return {p: (start, min(end, start + fitting[p])) for p, (start, end) in spans.items()}

    def _event_bytes(self, p: Partition) -> float:
        """Return the assumed size of an event of `p`: its topic's largest until something of `p` was read."""
        sizes = self._bytes_per_event.get(p.topic, {})
        return sizes[p.number] if p.number in sizes else max(sizes.values(), default=_UNKNOWN_BYTES)
