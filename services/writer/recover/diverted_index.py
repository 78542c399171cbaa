"""The driver's index of what waits on `onramp.system_errors`: markers, never the events."""

import threading
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from services.writer.kafka.producer import RecordMetadata
from services.writer.model.offsets import Incarnation, Range
from services.writer.park.diverted_topic import EmptyRanges, RangeMarker


class DivertedRange(NamedTuple):
    """A marker, where it stands on the topic, and when it got there (seconds since 1970)."""

    marker: RangeMarker
    place: RecordMetadata
    since: float


@dataclass(slots=True)
class _Lane:
    """What waits of one life of a partition, sorted by where its ranges start."""

    waiting: list[DivertedRange] = field(default_factory=list)
    #: Ranges without events, whose place does not matter: neighbours are one, at the place of the first.
    empty: list[DivertedRange] = field(default_factory=list)
    events: int = 0
    #: Since when the oldest event waits; None: there is none, or it is not known now.
    since: float | None = None

    def add(self, new: DivertedRange) -> None:
        """Take a marker in, in place of those that it covers."""
        at = bisect_left(self.waiting, new.marker.range.start, key=_start)
        end = bisect_left(self.waiting, new.marker.range.end, lo=at, key=_start)
        inside = self.waiting[at:end]
        kept = [w for w in inside if not _covers(new.marker.range, w.marker.range)]
        self.waiting[at:end] = [new, *kept] if kept else [new]
        self._gone(inside, kept)
        self.events += new.marker.count

    def add_empty(self, new: DivertedRange) -> None:
        """Take in that there is nothing; where a marker says otherwise, it has the last word."""
        at = bisect_left(self.empty, new.marker.range.start, key=_start)
        while at and _are_one(self.empty[at - 1], new):
            at -= 1
            new = _joined(self.empty.pop(at), new)
        while at < len(self.empty) and _are_one(new, self.empty[at]):
            new = _joined(new, self.empty.pop(at))
        self.empty.insert(at, new)

    def leading(self) -> Iterator[RangeMarker]:
        """What has no events, as far as the first range that has its own marker."""
        first = self.waiting[0].marker.range.start if self.waiting else None
        for marker in (w.marker for w in self.empty):
            if first is None or marker.range.end <= first:
                yield marker
            elif marker.range.start < first:
                yield replace(marker, range=replace(marker.range, end=first))

    def all(self) -> list[DivertedRange]:
        """Everything, sorted by where its ranges start."""
        return sorted([*self.waiting, *self.empty], key=_start)

    def forget(self, upto: int) -> None:
        """What ends at `upto` or before it is settled."""
        self._gone(_cut(self.waiting, upto))
        _cut(self.empty, upto)

    def _gone(self, before: Sequence[DivertedRange], kept: Sequence[DivertedRange] = ()) -> None:
        self.events -= sum(w.marker.count for w in before) - sum(w.marker.count for w in kept)
        self.since = None

    def oldest(self) -> float | None:
        """Since when the events that have waited longest wait; None: none does."""
        if self.since is None and self.events:
            self.since = min(w.since for w in self.waiting if w.marker.count)
        return self.since


class DivertedIndex:
    """Undrained markers by database and life of a partition.

    The loop adds while a thread that claims a database forgets: each call has the lock.
    An outage of an hour leaves hundreds of thousands, so what the loop asks on each turn
    looks at partitions, and what is added or drained at its own place.  What has no events
    is one range of each partition, however many batches it is of.
    """

    def __init__(self) -> None:
        self._lanes: dict[str, dict[Incarnation, _Lane]] = {}
        #: The furthest that ledgers were seen at, and how often that was news.
        self._ledgers: dict[Incarnation, int] = {}
        self.version = 0
        self._lock = threading.Lock()

    def add(self, found: RangeMarker | EmptyRanges, place: RecordMetadata, since: float) -> None:
        """A range was diverted.  A repeat of a marker replaces it, and so does one that covers it."""
        with self._lock:
            lanes = self._lanes.setdefault(found.database, {})
            if isinstance(found, RangeMarker):
                lanes.setdefault(found.range.incarnation, _Lane()).add(DivertedRange(found, place, since))
                return
            for r in found.ranges:
                marker = RangeMarker(found.database, r, 0, -1, found.digest)
                lanes.setdefault(r.incarnation, _Lane()).add_empty(DivertedRange(marker, place, since))

    def databases(self) -> set[str]:
        """Those that anything waits for, configured or not."""
        with self._lock:
            return {
                name for name, lanes in self._lanes.items() if any(_waits(lane) for lane in lanes.values())
            }

    def waits(self, database: str) -> bool:
        """Whether anything waits for `database`."""
        with self._lock:
            return any(_waits(lane) for lane in self._of(database))

    def almost_drained(self, database: str) -> bool:
        """Whether of each partition at most one range that has a marker of its own is left."""
        with self._lock:
            return all(len(lane.waiting) <= 1 for lane in self._of(database))

    def next(self, database: str) -> list[DivertedRange]:
        """What waits for `database` and can drain in one pass over the topic.

        Of each partition the ranges from the first on, as far as they stand on the topic in
        their order: one that was diverted again, or that fills a gap, stands behind later ones.
        """
        with self._lock:
            return [w for lane in self._of(database) for w in _in_order(lane.waiting)]

    def leading(self, database: str, of: Collection[Incarnation] | None = None) -> list[list[RangeMarker]]:
        """What has no events and comes before the first that have: of all partitions, or `of` these."""
        with self._lock:
            lanes = self._lanes.get(database, {})
            found = [
                list(lane.leading()) for incarnation, lane in lanes.items() if of is None or incarnation in of
            ]
        return [of_it for of_it in found if of_it]

    def incarnations(self, database: str) -> set[Incarnation]:
        """Of what anything waits for `database`."""
        with self._lock:
            return {
                incarnation for incarnation, lane in self._lanes.get(database, {}).items() if _waits(lane)
            }

    def furthest(self, incarnation: Incarnation) -> int:
        """The highest offset that a ledger of `incarnation` was seen at or any database's marker ends at."""
        with self._lock:
            return self._furthest(incarnation)

    def missing(self, database: str, incarnation: Incarnation, at: int, upto: int) -> tuple[int, int]:
        """What markers do not cover between the ledger's `at` and `upto`.

        When they cover it all, yet the database is halted, it is the first marker's range:
        what it promised is not there.  What has no events promises nothing.
        """
        ranges = self._ranges(database, incarnation)
        if _reached(ranges, at) >= upto:
            with self._lock:
                own = self._lanes.get(database, {}).get(incarnation, _Lane()).waiting
                return (own[0].marker.range.start, own[0].marker.range.end) if own else (at, at)
        begins = [start for start, _ in ranges if start > at and _reached(ranges, start) >= upto]
        return at, min([upto, *begins])

    def remove_settled(self, database: str, ledger: Mapping[Incarnation, int]) -> None:
        """A marker is drained when the ledger is at or past its end."""
        with self._lock:
            for incarnation, at in ledger.items():
                self.version += at > self._furthest(incarnation)
                self._ledgers[incarnation] = max(at, self._ledgers.get(incarnation, 0))
            lanes = self._lanes.get(database, {})
            for incarnation in lanes.keys() & ledger.keys():
                lanes[incarnation].forget(ledger[incarnation])

    def events(self, database: str) -> int:
        """How many events wait for `database`."""
        with self._lock:
            return sum(lane.events for lane in self._of(database))

    def needed(self) -> dict[int, int]:
        """By partition of the topic, the lowest offset that an undrained marker of any database needs."""
        with self._lock:
            return lowest(w for name in self._lanes for lane in self._of(name) for w in lane.all())

    def oldest(self, database: str) -> float | None:
        """Since when the events that have waited longest for `database` wait; None: none does."""
        with self._lock:
            since = [lane.oldest() for lane in self._of(database)]
        return min((s for s in since if s is not None), default=None)

    def covers(self, database: str, incarnation: Incarnation, at: int, upto: int) -> bool:
        """Whether markers lead without a gap from the ledger's `at` to `upto`."""
        return _reached(self._ranges(database, incarnation), at) >= upto

    def _of(self, database: str) -> Iterable[_Lane]:
        return self._lanes.get(database, {}).values()

    def _furthest(self, incarnation: Incarnation) -> int:
        lanes = [lane[incarnation] for lane in self._lanes.values() if incarnation in lane]
        ends = [last.marker.range.end for lane in lanes for last in (*lane.waiting[-1:], *lane.empty[-1:])]
        return max([self._ledgers.get(incarnation, 0), *ends])

    def _ranges(self, database: str, incarnation: Incarnation) -> list[tuple[int, int]]:
        with self._lock:
            lane = self._lanes.get(database, {}).get(incarnation, _Lane())
            return [(w.marker.range.start, w.marker.range.end) for w in lane.all()]


def lowest(waiting: Iterable[DivertedRange]) -> dict[int, int]:
    """By partition of the topic, the lowest offset that any of `waiting` needs: its events' or its own."""
    found: dict[int, int] = {}
    for w in waiting:
        first = min(w.marker.first, w.place.offset) if w.marker.count else w.place.offset
        found[w.place.partition] = min(found.get(w.place.partition, first), first)
    return found


def _start(waiting: DivertedRange) -> int:
    return waiting.marker.range.start


def _in_order(lane: Iterable[DivertedRange]) -> Iterator[DivertedRange]:
    """The first of `lane`, as far as each stands on the topic behind the one before it."""
    last = -1
    for w in lane:
        if w.place.offset <= last:
            return
        yield w
        last = w.place.offset


def _waits(lane: _Lane) -> bool:
    return bool(lane.waiting or lane.empty)


def _cut(waiting: list[DivertedRange], upto: int) -> list[DivertedRange]:
    """Take from the head of `waiting` what ends at `upto` or before it."""
    settled = 0
    while settled < len(waiting) and waiting[settled].marker.range.end <= upto:
        settled += 1
    gone = waiting[:settled]
    del waiting[:settled]
    return gone


def _are_one(first: DivertedRange, then: DivertedRange) -> bool:
    """Whether `then` goes on where `first` ends: by the same routes, for the audit asks for them."""
    one, other = first.marker, then.marker
    return (
        other.range.start <= one.range.end
        and one.digest == other.digest
        and first.place.partition == then.place.partition
    )


def _joined(first: DivertedRange, then: DivertedRange) -> DivertedRange:
    whole = replace(first.marker.range, end=max(first.marker.range.end, then.marker.range.end))
    place = min(first.place, then.place, key=lambda p: p.offset)
    return DivertedRange(replace(first.marker, range=whole), place, min(first.since, then.since))


def _covers(whole: Range, part: Range) -> bool:
    return whole.start <= part.start and part.end <= whole.end


def _reached(ranges: Iterable[tuple[int, int]], at: int) -> int:
    for start, end in ranges:
        if start <= at:
            at = max(at, end)
    return at
