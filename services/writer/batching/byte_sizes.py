"""Bounds the bytes of a batch: events are planned by number, and no index contains their sizes.

Twenty thousand events can be 5 MB or 20 GB.  Tasks report the bytes that they read, so the lengths of a
partition's next ranges follow the sizes of its last events; an unknown partition starts with short ranges.
Sizes are stored by partition, so a hot key with large events shortens only its own partition's ranges.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from services.writer.settle.work_order import TaskReport
from shared.kafka_read.offsets import Partition, Range, share

Span = tuple[int, int]
#: Assumed bytes of a topic's events before its first event is read.
_UNKNOWN_BYTES: Final = 64 << 10
_DECAY: Final = 0.9
#: Number of writers that started a range without progress before it is halved, as it may be too large.
_CRASHES_BEFORE_HALVING: Final = 2


def range_to_repeat(next_offset: int, unfinished: Sequence[Range]) -> Range:
    """Return the range to replan among the `unfinished` ranges at `next_offset`: the newest, or half of it.

    A half lies within a planned range, so none of its offsets is counted twice.
    """
    newest = unfinished[0]
    if (
        newest.start != next_offset
        or sum(r.start == next_offset for r in unfinished) < _CRASHES_BEFORE_HALVING
    ):
        return newest
    return half(newest)


def half(whole: Range) -> Range:
    """Return the first half of a range, or the range itself if it has one offset."""
    return replace(whole, end=whole.start + (len(whole) + 1) // 2)


class ByteSizes:
    """Tracks the bytes per event of each partition's last events."""

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes`: target maximum of a batch."""
        self._max_bytes = max_bytes
        #: By topic and partition number.
        self._bytes_per_event: dict[str, dict[int, float]] = {}

    def count(self, reports: Iterable[TaskReport]) -> None:
        """Update the sizes from tasks' reports: larger sizes at once, smaller sizes slowly."""
        largest: dict[Partition, float] = {}  # tasks may share a partition: one decay for all its reports
        for report in reports:
            if report.read:
                largest[report.range_of] = max(report.size / report.read, largest.get(report.range_of, 1.0))
        for p, size in largest.items():
            sizes = self._bytes_per_event.setdefault(p.topic, {})
            sizes[p.number] = max(size, sizes.get(p.number, 0.0) * _DECAY)

    def cut(self, planned: Sequence[Range]) -> list[Range]:
        """Return the ranges that a dead writer had `planned`, cut to the bytes of a batch.

        The topic retains the dead writer's plan in addition to the plan of the piece, which is newer and
        lies within it.
        """
        ranges = {r.partition: r for r in planned}
        spans = self.bound({p: (r.start, r.end) for p, r in ranges.items()})
        return [replace(ranges[p], start=start, end=end) for p, (start, end) in spans.items()]

    def bound(self, spans: Mapping[Partition, Span]) -> dict[Partition, Span]:
        """Return `spans` (partition to start and end), cut so that all of them fit into one batch.

        Small spans remain whole, and each span has at least one event.
        """
        event_bytes = {p: self._event_bytes(p) for p in spans}
        sizes = {p: (0, int((end - start) * event_bytes[p])) for p, (start, end) in spans.items()}
        if sum(size for _, size in sizes.values()) <= self._max_bytes:
            return dict(spans)
        shares = share(sizes, self._max_bytes)
        fitting = {p: max(int(shares.get(p, (0, 0))[1] / event_bytes[p]), 1) for p in spans}
        return {p: (start, min(end, start + fitting[p])) for p, (start, end) in spans.items()}

    def _event_bytes(self, p: Partition) -> float:
        """Return the assumed bytes of an event of `p`: its topic's largest until an event of `p` was read."""
        sizes = self._bytes_per_event.get(p.topic, {})
        return sizes[p.number] if p.number in sizes else max(sizes.values(), default=_UNKNOWN_BYTES)
