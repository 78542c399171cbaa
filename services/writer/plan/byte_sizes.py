"""How many bytes a batch has: events are planned by their number, and no index says how large they are.

Twenty thousand events can be 5 MB or 20 GB.  Tasks report what they read, so the next ranges of
a partition are as long as its last events were large; what is not known yet is begun with caution.
By partition: one that has a hot key with large events neither hides among its neighbours, nor
makes their ranges as short as its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from services.writer.model.offsets import Partition, Range, share
from services.writer.settle.work_order import TaskReport

Span = tuple[int, int]
#: What an event of a topic is taken to have before the first one was read.
_UNKNOWN: Final = 64 << 10
_FORGET: Final = 0.9
#: So many writers that began a range and got nowhere did not die of something else.
_DIED_OF_IT: Final = 2


def begun_again(at: int, begun: Sequence[Range]) -> Range:
    """What is planned again of `begun`, unfinished ranges that hold `at`: the newest, or half of it.

    Halves lie within what was begun, so nothing that was counted of it is counted twice.
    """
    newest = begun[0]
    if newest.start != at or sum(r.start == at for r in begun) < _DIED_OF_IT:
        return newest
    return replace(newest, end=at + (len(newest) + 1) // 2)


class ByteSizes:
    """What the events of each partition had lately."""

    def __init__(self, most: int) -> None:
        """A batch should have at most so many bytes."""
        self._most = most
        #: Bytes for each event, by topic and number.
        self._of: dict[str, dict[int, float]] = {}

    def count(self, lines: Iterable[TaskReport]) -> None:
        """Learn from what tasks report: larger events at once, smaller ones less quickly."""
        largest: dict[Partition, float] = {}  # tasks may share a partition: forgotten is once a report
        for line in lines:
            if line.read:
                largest[line.range_of] = max(line.size / line.read, largest.get(line.range_of, 1.0))
        for p, size in largest.items():
            of = self._of.setdefault(p.topic, {})
            of[p.number] = max(size, of.get(p.number, 0.0) * _FORGET)

    def cut(self, planned: Sequence[Range]) -> list[Range]:
        """What a dead writer had `planned`, or a piece of it.

        Its plan stands on the topic beside that of the piece, which lies within it and is newer.
        """
        whole = {r.partition: r for r in planned}
        spans = self.bound({p: (r.start, r.end) for p, r in whole.items()})
        return [replace(whole[p], start=start, end=end) for p, (start, end) in spans.items()]

    def bound(self, spans: Mapping[Partition, Span]) -> dict[Partition, Span]:
        """`spans` (partition to start and end) cut so that all are as large as a batch may be.

        Those that are small stay whole, and of each an event remains.
        """
        each = {p: self._event(p) for p in spans}
        sizes = {p: (0, int((end - start) * each[p])) for p, (start, end) in spans.items()}
        if sum(size for _, size in sizes.values()) <= self._most:
            return dict(spans)
        shares = share(sizes, self._most)
        fitting = {p: max(int(shares.get(p, (0, 0))[1] / each[p]), 1) for p in spans}
        return {p: (start, min(end, start + fitting[p])) for p, (start, end) in spans.items()}

    def _event(self, p: Partition) -> float:
        """What an event of `p` is taken to have: as much as its topic's largest while nothing was read."""
        of = self._of.get(p.topic, {})
        return of[p.number] if p.number in of else max(of.values(), default=_UNKNOWN)
