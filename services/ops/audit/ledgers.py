"""The books: what the audit compares, as it was read, and what follows from it for a partition.

Everything here is arithmetic over what was read before; no Kafka, no Postgres.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from services.ops.audit.settled_log import SettledLog, Totals
from services.ops.findings import Generation, Replayed, Source, Table
from services.ops.offset_ranges import History
from services.ops.parked.records import Marker


@dataclass(slots=True, kw_only=True)
class DatabaseBooks:
    """One database's part."""

    ledger: Mapping[Generation, int]
    totals: Mapping[tuple[Generation, str, str], int]
    #: (source, offset, destination) in the outbox
    outbox: frozenset[tuple[Source, int, str]]
    #: (generation, offset, destination) that wait in the database itself, behind a hold
    held: frozenset[tuple[Generation, int, str]]
    #: rows of landing tables by source
    counts: Mapping[Table, Mapping[Source, int]]
    repeated: Sequence[tuple[Table, Source, int, int]]
    #: tables with receipts that the audit's role may not read: their rows are not among `counts`
    unreadable: frozenset[Table] = frozenset()
    #: parked events that landed later, or were there already
    replayed: Mapping[Generation, list[Replayed]] = field(default_factory=dict)
    #: under which routes each range was settled
    history: Mapping[Generation, History] = field(default_factory=dict)
    _counted: dict[Generation, Counter[tuple[str, str]]] = field(default_factory=lambda: defaultdict(Counter))
    _held: dict[Generation, set[tuple[int, str]]] = field(default_factory=lambda: defaultdict(set))
    _kept: dict[Source, set[tuple[int, str]]] = field(default_factory=lambda: defaultdict(set))

    def __post_init__(self) -> None:
        """Sort by partition once: everything is asked for by partition."""
        for (generation, destination, outcome), n in self.totals.items():
            self._counted[generation][destination, outcome] += n
        for generation, offset, destination in self.held:
            self._held[generation].add((offset, destination))
        for source, offset, destination in self.outbox:
            self._kept[source].add((offset, destination))

    def counted(self, generation: Generation) -> Mapping[tuple[str, str], int]:
        """Return events by (schema.table, outcome)."""
        return self._counted.get(generation, Counter())

    def held_of(self, generation: Generation) -> set[tuple[int, str]]:
        """Return the (offset, destination) that wait in the database itself."""
        return self._held.get(generation, set())

    def kept_of(self, source: Source) -> set[tuple[int, str]]:
        """Return the (offset, destination) of `source` in the outbox."""
        return self._kept.get(source, set())


class ParkedEvent(NamedTuple):
    """What the audit holds of a record on `onramp.user_errors`: neither its bytes nor its reason."""

    source: Source
    offset: int
    destination: str


@dataclass(slots=True, kw_only=True)
class Books:
    """Everything that was read, at one moment per database, Kafka's after the databases'."""

    databases: Mapping[str, DatabaseBooks]
    settled: SettledLog
    group: Mapping[Source, int]
    parked: Mapping[str, ParkedEvent]
    #: by (database, source): the offsets of diverted events in their order, and the markers of ranges
    diverted: Mapping[tuple[str, Source], Sequence[int]]
    markers: Mapping[tuple[str, Generation], Sequence[Marker]]
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
        """Order the generations of each partition as the writer met them; the last is today's."""
        for event in self.parked.values():
            self._parked_from[event.source].append(event)
        order = {generation: n for n, generation in enumerate(self.settled.baselines)}
        topic_ids: dict[Source, set[str]] = defaultdict(set)
        for books in self.databases.values():
            for generation in books.ledger:
                topic_ids[generation.source].add(generation.topic_id)
        self.topic_ids = {
            s: sorted(ids, key=lambda i, s=s: order.get((i, s.partition), -1))  # type: ignore[misc]
            for s, ids in topic_ids.items()
        }

    def newest(self) -> list[Generation]:
        """Return today's generation of every partition that a ledger knows."""
        return [Generation(ids[-1], source) for source, ids in sorted(self.topic_ids.items())]

    def generations_of(self, source: Source) -> list[Generation]:
        """Return every generation of `source` that a ledger knows."""
        return [Generation(i, source) for i in self.topic_ids.get(source, ())]

    def chain(self, source: Source) -> list[Generation]:
        """Return the generations of the log that Kafka has today, the newest last."""
        ids = self.topic_ids[source]
        followed = self.settled.followed(ids[-1], source.partition)
        return [Generation(i, source) for i in followed if i in ids]

    def start(self, generation: Generation) -> int:
        """Return the first offset of `generation`; 0 when none was ever written."""
        return min(self.baseline(generation).values(), default=0)

    def next_offset(self, generation: Generation) -> int:
        """Return up to where every event is settled or waits, in the database that is furthest."""
        return max(self.covered(n, generation) for n, d in self.databases.items() if generation in d.ledger)

    def containing(self, source: Source, offset: int) -> list[Generation]:
        """Return the generations that have settled an event at `offset`."""
        known = self.generations_of(source)
        return [each for each in known if self.start(each) <= offset < self.next_offset(each)]

    def shares_offsets(self, source: Source) -> bool:
        """Tell whether two generations of `source` have settled the same offsets."""
        known = self.generations_of(source)
        return any(len(self.containing(source, self.start(each))) > 1 for each in known)

    def baseline(self, generation: Generation) -> Mapping[str, int]:
        """Return first offsets by database; empty when none was ever written."""
        return self.settled.baselines.get((generation.topic_id, generation.source.partition), {})

    def without_destination(self, generation: Generation) -> Totals:
        """Return how many were filtered, unroutable and refused."""
        return self.settled.totals.get((generation.topic_id, generation.source.partition), Totals())

    def waiting(self, database: str, generation: Generation) -> set[int]:
        """Return the offsets that wait for `database`: diverted, closed by a marker, above its ledger."""
        settled_to = self.databases[database].ledger.get(generation, 0)
        diverted = self.diverted.get((database, generation.source), ())
        offsets: set[int] = set()
        for m in self.sorted_markers(database, generation):
            offsets.update(between(diverted, max(m.start, settled_to), m.end))
            settled_to = max(settled_to, m.end)  # of markers that overlap none is looked through twice
        return offsets

    def sorted_markers(self, database: str, generation: Generation) -> list[Marker]:
        """Return the markers for `database`, by where their ranges start."""
        return sorted(self.markers.get((database, generation), ()), key=lambda m: m.start)

    def covered(self, database: str, generation: Generation) -> int:
        """Return up to where every event is settled or waits in `database`."""
        settled_to = self.databases[database].ledger.get(generation, 0)
        for m in self.sorted_markers(database, generation):
            if m.start <= settled_to:
                settled_to = max(settled_to, m.end)
        return settled_to

    def parked_keys(self, generation: Generation, database: str | None, below: int) -> set[tuple[int, str]]:
        """Return the (offset, destination) that are parked by `database`; None: by none.

        Without a database the destination is a pointer into the packet, empty for the whole event.
        """
        prefix = ("/",) if database is None else (f"{database}.",)
        keys = {
            (e.offset, e.destination)
            for e in self._parked_from.get(generation.source, ())
            if self.start(generation) <= e.offset < below
            and (e.destination.startswith(prefix) or (database is None and not e.destination))
        }
        # What goes nowhere and is too large for the topic may be in any outbox.
        for name in self.databases if database is None else (database,):
            kept = self.databases[name].kept_of(generation.source)
            ours = ((o, d) for o, d in kept if self.start(generation) <= o < below)
            keys |= {(o, d) for o, d in ours if (not d or d.startswith("/")) is (database is None)}
        return keys

    def is_shared(self, m: Marker) -> bool:
        """Tell whether another generation has offsets of this range: waiting events name the topic alone."""
        others = (i for i in self.generations_of(m.source) if i.topic_id != m.topic_id)
        return any(self.start(other) < m.end and m.start < self.next_offset(other) for other in others)


def between(offsets: Sequence[int], start: int, end: int) -> Sequence[int]:
    """Return those of the sorted `offsets` from `start` (included) to `end` (excluded)."""
    first = bisect_left(offsets, start)
    return offsets[first : bisect_left(offsets, end, lo=first)]
