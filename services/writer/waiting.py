"""The driver's index of what waits on `onramp.system_errors`: markers, never the events."""

import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from services.writer.divert import Marker
from services.writer.publishing import Place
from services.writer.ranges import Life, Range


class Waiting(NamedTuple):
    """A marker, where it stands on the topic, and when it got there (seconds since 1970)."""

    marker: Marker
    place: Place
    since: float


@dataclass(slots=True)
class _Lane:
    """What waits of one life of a partition, sorted by where its ranges start."""

    waiting: list[Waiting] = field(default_factory=list)
    events: int = 0
    #: Since when the oldest event waits; None: there is none, or it is not known now.
    since: float | None = None

    def add(self, new: Waiting) -> None:
        """Take a marker in, in place of those that it covers."""
        at = bisect_left(self.waiting, new.marker.range.start, key=_start)
        end = bisect_left(self.waiting, new.marker.range.end, lo=at, key=_start)
        inside = self.waiting[at:end]
        kept = [w for w in inside if not _covers(new.marker.range, w.marker.range)]
        self.waiting[at:end] = [new, *kept] if kept else [new]
        self._gone(inside, kept)
        self.events += new.marker.count

    def forget(self, upto: int) -> None:
        """What ends at `upto` or before it is settled."""
        settled = 0
        while settled < len(self.waiting) and self.waiting[settled].marker.range.end <= upto:
            settled += 1
        gone = self.waiting[:settled]
        del self.waiting[:settled]
        self._gone(gone)

    def _gone(self, before: Sequence[Waiting], kept: Sequence[Waiting] = ()) -> None:
        self.events -= sum(w.marker.count for w in before) - sum(w.marker.count for w in kept)
        self.since = None

    def oldest(self) -> float | None:
        """Since when the events that have waited longest wait; None: none does."""
        if self.since is None and self.events:
            self.since = min(w.since for w in self.waiting if w.marker.count)
        return self.since


class Index:
    """Undrained markers by database and life of a partition.

    The loop adds while a thread that claims a database forgets: each call has the lock.
    An outage of an hour leaves hundreds of thousands, so what the loop asks on each turn
    looks at partitions, and what is added or drained at its own place.
    """

    def __init__(self) -> None:
        self._lanes: dict[str, dict[Life, _Lane]] = {}
        #: The furthest that ledgers were seen at, and how often that was news.
        self._ledgers: dict[Life, int] = {}
        self.news = 0
        self._lock = threading.Lock()

    def add(self, marker: Marker, place: Place, since: float) -> None:
        """A range was diverted.  A repeat of a marker replaces it, and so does one that covers it."""
        with self._lock:
            lanes = self._lanes.setdefault(marker.database, {})
            lanes.setdefault(marker.range.life, _Lane()).add(Waiting(marker, place, since))

    def databases(self) -> set[str]:
        """Those that anything waits for, configured or not."""
        with self._lock:
            return {
                name for name, lanes in self._lanes.items() if any(lane.waiting for lane in lanes.values())
            }

    def waits(self, database: str) -> bool:
        """Whether anything waits for `database`."""
        with self._lock:
            return any(lane.waiting for lane in self._of(database))

    def nearly_drained(self, database: str) -> bool:
        """Whether at most one marker of each partition is left."""
        with self._lock:
            return all(len(lane.waiting) <= 1 for lane in self._of(database))

    def next(self, database: str) -> list[Waiting]:
        """What waits for `database` and can drain in one pass over the topic.

        Of each partition the ranges from the first on, as far as they stand on the topic in
        their order: one that was diverted again, or that fills a gap, stands behind later ones.
        """
        with self._lock:
            return [w for lane in self._of(database) for w in _in_order(lane.waiting)]

    def lives(self, database: str) -> set[Life]:
        """Of what anything waits for `database`."""
        with self._lock:
            return {life for life, lane in self._lanes.get(database, {}).items() if lane.waiting}

    def furthest(self, life: Life) -> int:
        """The highest offset of `life` that a ledger was seen at, or a marker of any database leads to."""
        with self._lock:
            return self._furthest(life)

    def missing(self, database: str, life: Life, at: int, upto: int) -> tuple[int, int]:
        """What markers do not cover between the ledger's `at` and `upto`.

        When they cover it all, yet the database is halted, it is the first marker's range:
        what it promised is not there.
        """
        ranges = self._ranges(database, life)
        begins = [start for start, _ in ranges if start > at and _reached(ranges, start) >= upto]
        if _reached(ranges, at) >= upto:
            return ranges[0] if ranges else (at, at)
        return at, min([upto, *begins])

    def forget_settled(self, database: str, ledger: Mapping[Life, int]) -> None:
        """A marker is drained when the ledger is at or past its end."""
        with self._lock:
            for life, at in ledger.items():
                self.news += at > self._furthest(life)
                self._ledgers[life] = max(at, self._ledgers.get(life, 0))
            lanes = self._lanes.get(database, {})
            for life in lanes.keys() & ledger.keys():
                lanes[life].forget(ledger[life])

    def events(self, database: str) -> int:
        """How many events wait for `database`."""
        with self._lock:
            return sum(lane.events for lane in self._of(database))

    def needed(self) -> dict[int, int]:
        """By partition of the topic, the lowest offset that an undrained marker of any database needs."""
        with self._lock:
            return lowest(w for name in self._lanes for lane in self._of(name) for w in lane.waiting)

    def oldest(self, database: str) -> float | None:
        """Since when the events that have waited longest for `database` wait; None: none does."""
        with self._lock:
            since = [lane.oldest() for lane in self._of(database)]
        return min((s for s in since if s is not None), default=None)

    def covers(self, database: str, life: Life, at: int, upto: int) -> bool:
        """Whether markers lead without a gap from the ledger's `at` to `upto`."""
        return _reached(self._ranges(database, life), at) >= upto

    def _of(self, database: str) -> Iterable[_Lane]:
        return self._lanes.get(database, {}).values()

    def _furthest(self, life: Life) -> int:
        lanes = [lane[life] for lane in self._lanes.values() if life in lane]
        ends = [lane.waiting[-1].marker.range.end for lane in lanes if lane.waiting]
        return max([self._ledgers.get(life, 0), *ends])

    def _ranges(self, database: str, life: Life) -> list[tuple[int, int]]:
        with self._lock:
            lane = self._lanes.get(database, {}).get(life, _Lane())
            return [(w.marker.range.start, w.marker.range.end) for w in lane.waiting]


def lowest(waiting: Iterable[Waiting]) -> dict[int, int]:
    """By partition of the topic, the lowest offset that any of `waiting` needs: its events' or its own."""
    found: dict[int, int] = {}
    for w in waiting:
        first = min(w.marker.first, w.place.offset) if w.marker.count else w.place.offset
        found[w.place.partition] = min(found.get(w.place.partition, first), first)
    return found


def _start(waiting: Waiting) -> int:
    return waiting.marker.range.start


def _in_order(lane: Iterable[Waiting]) -> Iterator[Waiting]:
    """The first of `lane`, as far as each stands on the topic behind the one before it."""
    last = -1
    for w in lane:
        if w.place.offset <= last:
            return
        yield w
        last = w.place.offset


def _covers(whole: Range, part: Range) -> bool:
    return whole.start <= part.start and part.end <= whole.end


def _reached(ranges: Iterable[tuple[int, int]], at: int) -> int:
    for start, end in ranges:
        if start <= at:
            at = max(at, end)
    return at
