"""The audit's collected data, and the values that follow from it for a partition.

Everything here is arithmetic over collected data, without Kafka and Postgres.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from services.ops.audit.settled_log import SettledLog, Totals
from services.ops.findings import Incarnation, Replayed, Source, Table
from services.ops.offset_ranges import History
from services.ops.parked.records import Marker


@dataclass(slots=True, kw_only=True)
class DatabaseBooks:
    """The data of one database."""

    ledger: Mapping[Incarnation, int]
    totals: Mapping[tuple[Incarnation, str, str], int]
    #: (source, offset, destination) in the outbox
    outbox: frozenset[tuple[Source, int, str]]
    #: (incarnation, offset, destination) that wait in the database itself, behind a hold
    held: frozenset[tuple[Incarnation, int, str]]
    #: rows of landing tables by source
    counts: Mapping[Table, Mapping[Source, int]]
    repeated: Sequence[tuple[Table, Source, int, int]]
    #: tables with receipts that the audit's role may not read: their rows are not among `counts`
    unreadable: frozenset[Table] = frozenset()
    #: parked events that landed later, or were there already
    replayed: Mapping[Incarnation, list[Replayed]] = field(default_factory=dict)
    #: under which routes each range was settled
    history: Mapping[Incarnation, History] = field(default_factory=dict)
    _counted: dict[Incarnation, Counter[tuple[str, str]]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    _held: dict[Incarnation, set[tuple[int, str]]] = field(default_factory=lambda: defaultdict(set))
    _kept: dict[Source, set[tuple[int, str]]] = field(default_factory=lambda: defaultdict(set))

    def __post_init__(self) -> None:
        """Sort by partition once, because every query is by partition."""
        for (incarnation, destination, outcome), n in self.totals.items():
            self._counted[incarnation][destination, outcome] += n
        for incarnation, offset, destination in self.held:
            self._held[incarnation].add((offset, destination))
        for source, offset, destination in self.outbox:
            self._kept[source].add((offset, destination))

    def counted(self, incarnation: Incarnation) -> Mapping[tuple[str, str], int]:
        """Return events by (schema.table, outcome)."""
        return self._counted.get(incarnation, Counter())

    def held_of(self, incarnation: Incarnation) -> set[tuple[int, str]]:
        """Return the (offset, destination) of events that wait in the database."""
        return self._held.get(incarnation, set())

    def kept_of(self, source: Source) -> set[tuple[int, str]]:
        """Return the (offset, destination) of `source` in the outbox."""
        return self._kept.get(source, set())


class ParkedEvent(NamedTuple):
    """A record of `onramp.user_errors` without its bytes and reason."""

    source: Source
    offset: int
    destination: str


@dataclass(slots=True, kw_only=True)
class Books:
    """All collected data: one snapshot per database, then Kafka."""

    databases: Mapping[str, DatabaseBooks]
    settled: SettledLog
    group: Mapping[Source, int]
    parked: Mapping[str, ParkedEvent]
    #: by (database, source): the offsets of diverted events in their order, and the markers of ranges
    diverted: Mapping[tuple[str, Source], Sequence[int]]
    markers: Mapping[tuple[str, Incarnation], Sequence[Marker]]
    #: by source, what is on Kafka now
    spans: Mapping[Source, tuple[int, int]]
    topic_ids: dict[Source, list[str]] = field(default_factory=dict)
    #: Where the writer's group stood before any database was read: all below it was settled in each.
    committed: Mapping[Source, int] = field(default_factory=dict)
    #: Partitions that nobody leads: what they hold is not here.
    leaderless: frozenset[Source] = frozenset()
    #: Records on Onramp's own topics that are none of Onramp's.
    foreign: int = 0
    #: Retired databases, and what those that were given have counted, by outcome: none is among `databases`.
    closed: Mapping[str, Mapping[str, int] | None] = field(default_factory=dict)
    _parked_from: dict[Source, list[ParkedEvent]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        """Order the generations of each partition as the writer read them; the last is the current one."""
        for event in self.parked.values():
            self._parked_from[event.source].append(event)
        order = {incarnation: n for n, incarnation in enumerate(self.settled.baselines)}
        topic_ids: dict[Source, set[str]] = defaultdict(set)
        for books in self.databases.values():
            for incarnation in books.ledger:
                topic_ids[incarnation.source].add(incarnation.topic_id)
        self.topic_ids = {
            s: sorted(ids, key=lambda i, s=s: order.get((i, s.partition), -1))  # type: ignore[misc]
            for s, ids in topic_ids.items()
        }

    def newest(self) -> list[Incarnation]:
        """Return the current generation of every partition that a ledger knows."""
        return [Incarnation(ids[-1], source) for source, ids in sorted(self.topic_ids.items())]

    def incarnations_of(self, source: Source) -> list[Incarnation]:
        """Return every incarnation of `source` that a ledger knows."""
        return [Incarnation(i, source) for i in self.topic_ids.get(source, ())]

    def chain(self, source: Source) -> list[Incarnation]:
        """Return the generations of Kafka's current log, the newest last."""
        ids = self.topic_ids[source]
        followed = self.settled.followed(ids[-1], source.partition)
        return [Incarnation(i, source) for i in followed if i in ids]

    def start(self, incarnation: Incarnation) -> int:
        """Return the first offset of `generation`, or 0 if none was written."""
        return min(self.baseline(incarnation).values(), default=0)

    def next_offset(self, incarnation: Incarnation) -> int:
        """Return the offset below which every event is settled or waits, in the furthest database."""
        return max(self.covered(n, incarnation) for n, d in self.databases.items() if incarnation in d.ledger)

    def containing(self, source: Source, offset: int) -> list[Incarnation]:
        """Return the generations with a settled event at `offset`."""
        known = self.incarnations_of(source)
        return [each for each in known if self.start(each) <= offset < self.next_offset(each)]

    def shares_offsets(self, source: Source) -> bool:
        """Return whether two generations of `source` have settled the same offsets."""
        known = self.incarnations_of(source)
        return any(len(self.containing(source, self.start(each))) > 1 for each in known)

    def baseline(self, incarnation: Incarnation) -> Mapping[str, int]:
        """Return first offsets by database; empty if none was written."""
        return self.settled.baselines.get((incarnation.topic_id, incarnation.source.partition), {})

    def without_destination(self, incarnation: Incarnation) -> Totals:
        """Return the numbers of filtered, unroutable and refused events."""
        return self.settled.totals.get((incarnation.topic_id, incarnation.source.partition), Totals())

    def waiting(self, database: str, incarnation: Incarnation) -> set[int]:
        """Return the offsets that wait for `database`: diverted, closed by a marker, and above its ledger."""
        settled_to = self.databases[database].ledger.get(incarnation, 0)
        diverted = self.diverted.get((database, incarnation.source), ())
        offsets: set[int] = set()
        for m in self.sorted_markers(database, incarnation):
            offsets.update(between(diverted, max(m.start, settled_to), m.end))
            settled_to = max(settled_to, m.end)  # of markers that overlap none is looked through twice
        return offsets

    def sorted_markers(self, database: str, incarnation: Incarnation) -> list[Marker]:
        """Return the markers for `database`, by the start of their ranges."""
        return sorted(self.markers.get((database, incarnation), ()), key=lambda m: m.start)

    def covered(self, database: str, incarnation: Incarnation) -> int:
        """Return the offset below which every event is settled or waits in `database`."""
        settled_to = self.databases[database].ledger.get(incarnation, 0)
        for m in self.sorted_markers(database, incarnation):
            if m.start <= settled_to:
                settled_to = max(settled_to, m.end)
        return settled_to

    def parked_keys(self, incarnation: Incarnation, database: str | None, below: int) -> set[tuple[int, str]]:
        """Return the (offset, destination) parked by `database`, or without a database if None.

        Without a database the destination is a pointer into the packet, empty for the whole event.
        """
        prefix = ("/",) if database is None else (f"{database}.",)
        keys = {
            (e.offset, e.destination)
            for e in self._parked_from.get(incarnation.source, ())
            if self.start(incarnation) <= e.offset < below
            and (e.destination.startswith(prefix) or (database is None and not e.destination))
        }
        # What goes nowhere and is too large for the topic may be in any outbox.
        for name in self.databases if database is None else (database,):
            kept = self.databases[name].kept_of(incarnation.source)
            ours = ((o, d) for o, d in kept if self.start(incarnation) <= o < below)
            keys |= {(o, d) for o, d in ours if (not d or d.startswith("/")) is (database is None)}
        return keys

    def is_shared(self, m: Marker) -> bool:
        """Return whether another generation has offsets of this range: waiting events name only the topic."""
        others = (i for i in self.incarnations_of(m.source) if i.topic_id != m.topic_id)
        return any(self.start(other) < m.end and m.start < self.next_offset(other) for other in others)


def between(offsets: Sequence[int], start: int, end: int) -> Sequence[int]:
    """Return those of the sorted `offsets` from `start` (included) to `end` (excluded)."""
    first = bisect_left(offsets, start)
    return offsets[first : bisect_left(offsets, end, lo=first)]
