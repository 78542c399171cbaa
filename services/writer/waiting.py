"""The driver's index of what waits on `onramp.system_errors`: markers, never the events."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from services.writer.divert import Marker
from services.writer.publishing import Place
from services.writer.ranges import Partition, Range


class Waiting(NamedTuple):
    """A marker, where it stands on the topic, and when it got there (seconds since 1970)."""

    marker: Marker
    place: Place
    since: float


@dataclass(slots=True)
class Index:
    """Undrained markers by database, in the order of the topic."""

    _of: dict[str, list[Waiting]]

    def __init__(self) -> None:
        self._of = {}

    def add(self, marker: Marker, place: Place, since: float) -> None:
        """A range was diverted.  A repeat of a marker replaces it, and so does one that covers it."""
        kept = [w for w in self.of(marker.database) if not _covers(marker.range, w.marker.range)]
        self._of[marker.database] = [*kept, Waiting(marker, place, since)]

    def of(self, database: str) -> list[Waiting]:
        """What waits for `database`."""
        return self._of.get(database, [])

    def next(self, database: str) -> list[Waiting]:
        """What waits for `database` and can drain in one pass over the topic.

        Of each partition the ranges from the first on, as far as they stand on the topic in
        their order: one that was diverted again, or that fills a gap, stands behind later ones.
        """
        found: list[Waiting] = []
        last: dict[Partition, Place | None] = {}
        for w in sorted(self.of(database), key=lambda w: w.marker.range.start):
            before = last.get(w.marker.range.partition, Place(w.place.partition, -1))
            if before is not None and before.offset < w.place.offset:
                found.append(w)
                last[w.marker.range.partition] = w.place
            else:
                last[w.marker.range.partition] = None
        return found

    def missing(self, database: str, partition: Partition, at: int, upto: int) -> tuple[int, int]:
        """What markers do not cover between the ledger's `at` and `upto`.

        When they cover it all, yet the database is halted, it is the first marker's range:
        what it promised is not there.
        """
        of_it = sorted(
            (w.marker.range.start, w.marker.range.end)
            for w in self.of(database)
            if w.marker.range.partition == partition
        )
        begins = [start for start, _ in of_it if start > at and _reached(of_it, start) >= upto]
        if _reached(of_it, at) >= upto:
            return of_it[0] if of_it else (at, at)
        return at, min([upto, *begins])

    def forget_settled(self, database: str, ledger: dict[Partition, int]) -> None:
        """A marker is drained when the ledger is at or past its end."""
        self._of[database] = [
            w for w in self.of(database) if ledger.get(w.marker.range.partition, 0) < w.marker.range.end
        ]

    def events(self, database: str) -> int:
        """How many events wait for `database`."""
        return sum(w.marker.count for w in self.of(database))

    def needed(self) -> dict[int, int]:
        """By partition of the topic, the lowest offset that an undrained marker of any database needs."""
        found: dict[int, int] = {}
        for w in (w for of in self._of.values() for w in of):
            first = min(w.marker.first, w.place.offset) if w.marker.count else w.place.offset
            found[w.place.partition] = min(found.get(w.place.partition, first), first)
        return found

    def oldest(self, database: str) -> float | None:
        """Since when the events that have waited longest for `database` wait; None: none does."""
        return min((w.since for w in self.of(database) if w.marker.count), default=None)

    def covers(self, database: str, partition: Partition, at: int, upto: int) -> bool:
        """Whether markers lead without a gap from the ledger's `at` to `upto`."""
        ranges = sorted(
            (w.marker.range.start, w.marker.range.end)
            for w in self.of(database)
            if w.marker.range.partition == partition
        )
        return _reached(ranges, at) >= upto


def _covers(whole: Range, part: Range) -> bool:
    same = (whole.topic_id, whole.partition) == (part.topic_id, part.partition)
    return same and whole.start <= part.start and part.end <= whole.end


def _reached(ranges: Iterable[tuple[int, int]], at: int) -> int:
    for start, end in ranges:
        if start <= at:
            at = max(at, end)
    return at
