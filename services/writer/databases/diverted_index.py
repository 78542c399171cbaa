"""The diverted-range index: the undrained markers of `onramp.system_errors`, without their events."""

import threading
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from services.writer.kafka.producer import RecordMetadata
from services.writer.park.diverted_topic import EmptyRanges, RangeMarker
from shared.kafka_read.offsets import Generation, Range


class DivertedRange(NamedTuple):
    """A range marker, its position on the topic, and the time of its record (Unix seconds)."""

    marker: RangeMarker
    metadata: RecordMetadata
    since: float


@dataclass(slots=True)
class _PartitionRanges:
    """The undrained ranges of a partition in one topic generation, sorted by their starts."""

    waiting: list[DivertedRange] = field(default_factory=list)
    #: Ranges without events.  Their order on the topic does not matter: adjacent ranges are joined.
    empty: list[DivertedRange] = field(default_factory=list)
    events: int = 0
    #: The time from which the oldest event waits (Unix seconds); None: no event, or not computed yet.
    since: float | None = None

    def add(self, new: DivertedRange) -> None:
        """Add a marker in place of the markers that it covers."""
        i = bisect_left(self.waiting, new.marker.range.start, key=_start)
        end = bisect_left(self.waiting, new.marker.range.end, lo=i, key=_start)
        inside = self.waiting[i:end]
        retained = [w for w in inside if not _covers(new.marker.range, w.marker.range)]
        self.waiting[i:end] = [new, *retained] if retained else [new]
        self._subtract(inside, retained)
        self.events += new.marker.count

    def add_empty(self, new: DivertedRange) -> None:
        """Add a range without events; a marker with events for the same offsets takes precedence."""
        i = bisect_left(self.empty, new.marker.range.start, key=_start)
        while i and _are_adjacent(self.empty[i - 1], new):
            i -= 1
            new = _join(self.empty.pop(i), new)
        while i < len(self.empty) and _are_adjacent(new, self.empty[i]):
            new = _join(new, self.empty.pop(i))
        self.empty.insert(i, new)

    def leading_empty(self) -> Iterator[RangeMarker]:
        """Yield empty ranges up to the first range that has a marker of its own."""
        first = self.waiting[0].marker.range.start if self.waiting else None
        for marker in (w.marker for w in self.empty):
            if first is None or marker.range.end <= first:
                yield marker
            elif marker.range.start < first:
                yield replace(marker, range=replace(marker.range, end=first))

    def all(self) -> list[DivertedRange]:
        """Return all ranges, sorted by their starts."""
        return sorted([*self.waiting, *self.empty], key=_start)

    def remove_settled(self, end: int) -> None:
        """Remove ranges that end at `end` or before it."""
        self._subtract(_remove_settled(self.waiting, end))
        _remove_settled(self.empty, end)

    def _subtract(self, before: Sequence[DivertedRange], retained: Sequence[DivertedRange] = ()) -> None:
        self.events -= sum(w.marker.count for w in before) - sum(w.marker.count for w in retained)
        self.since = None

    def oldest(self) -> float | None:
        """Return the time from which the oldest event waits (Unix seconds); None if no event waits."""
        if self.since is None and self.events:
            self.since = min(w.since for w in self.waiting if w.marker.count)
        return self.since


class DivertedIndex:
    """Undrained markers by database, partition and topic generation.

    The loop adds markers while a thread that claims a database removes some: each call takes the lock.
    An outage of an hour leaves hundreds of thousands of markers, so a method that the loop calls on each
    turn costs time by partitions, not by markers.  Ranges without events are joined to one range of each
    partition, across batches.
    """

    def __init__(self) -> None:
        self._partitions: dict[str, dict[Generation, _PartitionRanges]] = {}
        #: The highest next offset read from any ledger, and the number of times that it rose.
        self._ledgers: dict[Generation, int] = {}
        self.version = 0
        self._lock = threading.Lock()

    def add(self, marker: RangeMarker | EmptyRanges, metadata: RecordMetadata, since: float) -> None:
        """Add a diverted range.  A marker replaces its repeats and the markers that it covers."""
        with self._lock:
            partitions = self._partitions.setdefault(marker.database, {})
            if isinstance(marker, RangeMarker):
                partitions.setdefault(marker.range.generation, _PartitionRanges()).add(
                    DivertedRange(marker, metadata, since)
                )
                return
            for r in marker.ranges:
                empty = RangeMarker(marker.database, r, count=0, first=-1, digest=marker.digest)
                partitions.setdefault(r.generation, _PartitionRanges()).add_empty(
                    DivertedRange(empty, metadata, since)
                )

    def databases(self) -> set[str]:
        """Return the databases that have undrained markers, configured or not."""
        with self._lock:
            return {
                name
                for name, partitions in self._partitions.items()
                if any(_has_waiting(ranges_of) for ranges_of in partitions.values())
            }

    def has_waiting(self, database: str) -> bool:
        """Return whether `database` has undrained markers."""
        with self._lock:
            return any(_has_waiting(ranges_of) for ranges_of in self._of(database))

    def almost_drained(self, database: str) -> bool:
        """Return whether each partition has at most one undrained range with a marker of its own."""
        with self._lock:
            return all(len(ranges_of.waiting) <= 1 for ranges_of in self._of(database))

    def next(self, database: str) -> list[DivertedRange]:
        """Return the ranges of `database` that can drain in one pass over the topic.

        Invariant (`drain_sorted`): the ranges of a partition drain in the order of their offsets, so a
        pass has the first ranges whose markers are on the topic in that order.  A range that was
        diverted again, or that fills a gap, has its marker behind the markers of later ranges.
        """
        with self._lock:
            return [w for ranges_of in self._of(database) for w in _in_order(ranges_of.waiting)]

    def leading_empty(
        self, database: str, of: Collection[Generation] | None = None
    ) -> list[list[RangeMarker]]:
        """Return empty ranges before the first range with events, of all partitions or of those in `of`."""
        with self._lock:
            partitions = self._partitions.get(database, {})
            found = [
                list(ranges_of.leading_empty())
                for generation, ranges_of in partitions.items()
                if of is None or generation in of
            ]
        return [of_it for of_it in found if of_it]

    def generations(self, database: str) -> set[Generation]:
        """Return the partitions, by topic generation, that have undrained markers for `database`."""
        with self._lock:
            return {
                generation
                for generation, ranges_of in self._partitions.get(database, {}).items()
                if _has_waiting(ranges_of)
            }

    def highest_known(self, generation: Generation) -> int:
        """Return the highest next offset of a ledger, or end of a marker, known for `generation`."""
        with self._lock:
            return self._highest_known(generation)

    def missing(self, database: str, generation: Generation, settled_to: int, end: int) -> tuple[int, int]:
        """Return the first range between the ledger's `settled_to` and `end` without a marker.

        If markers cover all offsets and the database is halted nevertheless, return the first marker's
        range: its events are not complete.  Empty ranges have no events that could be missing.
        """
        ranges = self._ranges(database, generation)
        if _reached(ranges, settled_to) >= end:
            with self._lock:
                waiting = self._partitions.get(database, {}).get(generation, _PartitionRanges()).waiting
                return (
                    (waiting[0].marker.range.start, waiting[0].marker.range.end)
                    if waiting
                    else (settled_to, settled_to)
                )
        starts = [start for start, _ in ranges if start > settled_to and _reached(ranges, start) >= end]
        return settled_to, min([end, *starts])

    def remove_settled(self, database: str, ledger: Mapping[Generation, int]) -> None:
        """Remove the markers whose ends the ledger has reached."""
        with self._lock:
            for generation, at in ledger.items():
                self.version += at > self._highest_known(generation)
                self._ledgers[generation] = max(at, self._ledgers.get(generation, 0))
            partitions = self._partitions.get(database, {})
            for generation in partitions.keys() & ledger.keys():
                partitions[generation].remove_settled(ledger[generation])

    def events(self, database: str) -> int:
        """Return the number of diverted events that wait for `database`."""
        with self._lock:
            return sum(ranges_of.events for ranges_of in self._of(database))

    def lowest_needed(self) -> dict[int, int]:
        """Return, by partition of the topic, the lowest offset that any undrained marker needs."""
        with self._lock:
            return lowest(
                w for name in self._partitions for ranges_of in self._of(name) for w in ranges_of.all()
            )

    def oldest(self, database: str) -> float | None:
        """Return the time from which the oldest event for `database` waits (Unix seconds), or None."""
        with self._lock:
            since = [ranges_of.oldest() for ranges_of in self._of(database)]
        return min((s for s in since if s is not None), default=None)

    def covers(self, database: str, generation: Generation, settled_to: int, end: int) -> bool:
        """Return whether markers cover the offsets from the ledger's `settled_to` to `end`."""
        return _reached(self._ranges(database, generation), settled_to) >= end

    def _of(self, database: str) -> Iterable[_PartitionRanges]:
        return self._partitions.get(database, {}).values()

    def _highest_known(self, generation: Generation) -> int:
        partitions = [
            ranges_of[generation] for ranges_of in self._partitions.values() if generation in ranges_of
        ]
        ends = [
            last.marker.range.end
            for ranges_of in partitions
            for last in (*ranges_of.waiting[-1:], *ranges_of.empty[-1:])
        ]
        return max([self._ledgers.get(generation, 0), *ends])

    def _ranges(self, database: str, generation: Generation) -> list[tuple[int, int]]:
        with self._lock:
            ranges_of = self._partitions.get(database, {}).get(generation, _PartitionRanges())
            return [(w.marker.range.start, w.marker.range.end) for w in ranges_of.all()]


def lowest(waiting: Iterable[DivertedRange]) -> dict[int, int]:
    """Return, by partition of the topic, the lowest offset of the events and markers of `waiting`."""
    lowest_offsets: dict[int, int] = {}
    for w in waiting:
        first = min(w.marker.first, w.metadata.offset) if w.marker.count else w.metadata.offset
        lowest_offsets[w.metadata.partition] = min(lowest_offsets.get(w.metadata.partition, first), first)
    return lowest_offsets


def _start(waiting: DivertedRange) -> int:
    return waiting.marker.range.start


def _in_order(ranges_of: Iterable[DivertedRange]) -> Iterator[DivertedRange]:
    """Yield the first of `ranges_of`, while each marker is on the topic behind the one before it."""
    last = -1
    for w in ranges_of:
        if w.metadata.offset <= last:
            return
        yield w
        last = w.metadata.offset


def _has_waiting(ranges_of: _PartitionRanges) -> bool:
    return bool(ranges_of.waiting or ranges_of.empty)


def _remove_settled(waiting: list[DivertedRange], end: int) -> list[DivertedRange]:
    """Remove and return the ranges at the head of `waiting` that end at `end` or before it."""
    settled = 0
    while settled < len(waiting) and waiting[settled].marker.range.end <= end:
        settled += 1
    removed = waiting[:settled]
    del waiting[:settled]
    return removed


def _are_adjacent(first: DivertedRange, second: DivertedRange) -> bool:
    """Return whether `second` continues `first` under the same routes, which the audit distinguishes."""
    one, other = first.marker, second.marker
    return (
        other.range.start <= one.range.end
        and one.digest == other.digest
        and first.metadata.partition == second.metadata.partition
    )


def _join(first: DivertedRange, second: DivertedRange) -> DivertedRange:
    whole = replace(first.marker.range, end=max(first.marker.range.end, second.marker.range.end))
    metadata = min(first.metadata, second.metadata, key=lambda p: p.offset)
    return DivertedRange(replace(first.marker, range=whole), metadata, min(first.since, second.since))


def _covers(whole: Range, part: Range) -> bool:
    return whole.start <= part.start and part.end <= whole.end


def _reached(ranges: Iterable[tuple[int, int]], offset: int) -> int:
    for start, end in ranges:
        if start <= offset:
            offset = max(offset, end)
    return offset
