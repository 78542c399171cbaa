"""The audit's collected data, and the values that follow from it for a partition.

Everything here is arithmetic over collected data, without Kafka and Postgres.
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
from shared import wire


@dataclass(slots=True, kw_only=True)
class DatabaseData:
    """The data of one database."""

    ledger: Mapping[Generation, int]
    totals: Mapping[tuple[Generation, str, str], int]
    #: (source, offset, destination) in the outbox
    outbox: frozenset[tuple[Source, int, str]]
    #: (generation, offset, destination) of events that wait in the database, behind a hold
    waiting: frozenset[tuple[Generation, int, str]]
    #: rows of landing tables by source
    counts: Mapping[Table, Mapping[Source, int]]
    repeated: Sequence[tuple[Table, Source, int, int]]
    #: tables with receipts that the audit's role may not read: their rows are not among `counts`
    unreadable: frozenset[Table] = frozenset()
    #: parked events that landed later, or were there already
    replayed: Mapping[Generation, list[Replayed]] = field(default_factory=dict)
    #: routes of each settled range
    history: Mapping[Generation, History] = field(default_factory=dict)
    _counted: dict[Generation, Counter[tuple[str, str]]] = field(default_factory=lambda: defaultdict(Counter))
    _waiting: dict[Generation, set[tuple[int, str]]] = field(default_factory=lambda: defaultdict(set))
    _outbox: dict[Source, set[tuple[int, str]]] = field(default_factory=lambda: defaultdict(set))

    def __post_init__(self) -> None:
        """Sort by partition once, because every query is by partition."""
        for (generation, destination, outcome), n in self.totals.items():
            self._counted[generation][destination, outcome] += n
        for generation, offset, destination in self.waiting:
            self._waiting[generation].add((offset, destination))
        for source, offset, destination in self.outbox:
            self._outbox[source].add((offset, destination))

    def counted(self, generation: Generation) -> Mapping[tuple[str, str], int]:
        """Return events by (schema.table, outcome)."""
        return self._counted.get(generation, Counter())

    def waiting_of(self, generation: Generation) -> set[tuple[int, str]]:
        """Return the (offset, destination) of events that wait in the database."""
        return self._waiting.get(generation, set())

    def outbox_of(self, source: Source) -> set[tuple[int, str]]:
        """Return the (offset, destination) of `source` in the outbox."""
        return self._outbox.get(source, set())


class ParkedEvent(NamedTuple):
    """A record of `onramp.user_errors` without its bytes and reason."""

    source: Source
    offset: int
    destination: str


@dataclass(slots=True, kw_only=True)
class AuditData:
    """All collected data: one snapshot per database, then Kafka."""

    databases: Mapping[str, DatabaseData]
    settled: SettledLog
    group: Mapping[Source, int]
    parked: Mapping[str, ParkedEvent]
    #: by (database, source): the offsets of diverted events in their order, and the markers of ranges
    diverted: Mapping[tuple[str, Source], Sequence[int]]
    markers: Mapping[tuple[str, Generation], Sequence[Marker]]
    #: by source, Kafka's offset range
    spans: Mapping[Source, tuple[int, int]]
    topic_ids: dict[Source, list[str]] = field(default_factory=dict)
    #: The writer group's offsets before any database was read: all events below were settled in each.
    committed: Mapping[Source, int] = field(default_factory=dict)
    #: Partitions without a leader, which were not read.
    leaderless: frozenset[Source] = frozenset()
    #: Foreign records on Onramp's own topics.
    foreign: int = 0
    #: Retired databases with their counts by outcome, if given; none is among `databases`.
    closed: Mapping[str, Mapping[str, int] | None] = field(default_factory=dict)
    _parked_from: dict[Source, list[ParkedEvent]] = field(default_factory=lambda: defaultdict(list))
    #: A cache of `database_of`: a topic of parked events names few destinations.
    _database_of: dict[str, str | None] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Order the generations of each partition as the writer read them; the last is the current one."""
        for event in self.parked.values():
            self._parked_from[event.source].append(event)
        order = {generation: n for n, generation in enumerate(self.settled.baselines)}
        topic_ids: dict[Source, set[str]] = defaultdict(set)
        for data in self.databases.values():
            for generation in data.ledger:
                topic_ids[generation.source].add(generation.topic_id)
        self.topic_ids = {
            s: sorted(ids, key=lambda i, s=s: order.get((i, s.partition), -1))  # type: ignore[misc]
            for s, ids in topic_ids.items()
        }

    def newest(self) -> list[Generation]:
        """Return the current generation of every partition that a ledger knows."""
        return [Generation(ids[-1], source) for source, ids in sorted(self.topic_ids.items())]

    def generations_of(self, source: Source) -> list[Generation]:
        """Return every generation of `source` that a ledger knows."""
        return [Generation(i, source) for i in self.topic_ids.get(source, ())]

    def chain(self, source: Source) -> list[Generation]:
        """Return the generations of Kafka's current log, the newest last."""
        ids = self.topic_ids[source]
        followed = self.settled.followed(ids[-1], source.partition)
        return [Generation(i, source) for i in followed if i in ids]

    def start(self, generation: Generation) -> int:
        """Return the first offset of `generation`, or 0 if none was written."""
        return min(self.baseline(generation).values(), default=0)

    def next_offset(self, generation: Generation) -> int:
        """Return the offset below which every event is settled or waits, in the furthest database."""
        return max(self.covered(n, generation) for n, d in self.databases.items() if generation in d.ledger)

    def containing(self, source: Source, offset: int) -> list[Generation]:
        """Return the generations with a settled event at `offset`."""
        known = self.generations_of(source)
        return [each for each in known if self.start(each) <= offset < self.next_offset(each)]

    def shares_offsets(self, source: Source) -> bool:
        """Return whether two generations of `source` have settled the same offsets."""
        known = self.generations_of(source)
        return any(len(self.containing(source, self.start(each))) > 1 for each in known)

    def baseline(self, generation: Generation) -> Mapping[str, int]:
        """Return first offsets by database; empty if none was written."""
        return self.settled.baselines.get((generation.topic_id, generation.source.partition), {})

    def without_destination(self, generation: Generation) -> Totals:
        """Return the numbers of filtered, unroutable and refused events."""
        return self.settled.totals.get((generation.topic_id, generation.source.partition), Totals())

    def waiting(self, database: str, generation: Generation) -> set[int]:
        """Return the offsets that wait for `database`: diverted, closed by a marker, and above its ledger."""
        settled_to = self.databases[database].ledger.get(generation, 0)
        diverted = self.diverted.get((database, generation.source), ())
        offsets: set[int] = set()
        for m in self.sorted_markers(database, generation):
            offsets.update(between(diverted, max(m.start, settled_to), m.end))
            settled_to = max(settled_to, m.end)  # of markers that overlap none is looked through twice
        return offsets

    def sorted_markers(self, database: str, generation: Generation) -> list[Marker]:
        """Return the markers for `database`, by the start of their ranges."""
        return sorted(self.markers.get((database, generation), ()), key=lambda m: m.start)

    def covered(self, database: str, generation: Generation) -> int:
        """Return the offset below which every event is settled or waits in `database`."""
        settled_to = self.databases[database].ledger.get(generation, 0)
        for m in self.sorted_markers(database, generation):
            if m.start <= settled_to:
                settled_to = max(settled_to, m.end)
        return settled_to

    def parked_keys(self, generation: Generation, database: str | None, below: int) -> set[tuple[int, str]]:
        """Return the (offset, destination) parked by `database`, or without a database if None.

        Without a database the destination is a pointer into the packet, empty for the whole event.
        """
        keys = {
            (e.offset, e.destination)
            for e in self._parked_from.get(generation.source, ())
            if self.start(generation) <= e.offset < below and self.database_of(e.destination) == database
        }
        # An event without a destination that is too large for the topic may be in any outbox.
        for name in self.databases if database is None else (database,):
            kept = self.databases[name].outbox_of(generation.source)
            ours = ((o, d) for o, d in kept if self.start(generation) <= o < below)
            keys |= {(o, d) for o, d in ours if (not d or d.startswith("/")) is (database is None)}
        return keys

    def names(self) -> set[str]:
        """Return the names of all databases that were given, are retired, or have a baseline."""
        return {
            *self.databases,
            *self.closed,
            *(n for first in self.settled.baselines.values() for n in first),
        }

    def database_of(self, destination: str) -> str | None:
        """Return the database of a destination: None if it was refused, empty if no known database has it.

        The longest known name counts: the table `b.t` of `main` and the schema `t` of `main.b` begin alike.
        """
        if destination not in self._database_of:
            names = (n for n in self.names() if destination.startswith(f"{n}."))
            is_refused = wire.is_refused(destination)
            self._database_of[destination] = None if is_refused else max(names, key=len, default="")
        return self._database_of[destination]

    def is_shared(self, m: Marker) -> bool:
        """Return whether another generation has offsets of this range: waiting events name only the topic."""
        others = (i for i in self.generations_of(m.source) if i.topic_id != m.topic_id)
        return any(self.start(other) < m.end and m.start < self.next_offset(other) for other in others)


def between(offsets: Sequence[int], start: int, end: int) -> Sequence[int]:
    """Return those of the sorted `offsets` from `start` (included) to `end` (excluded)."""
    first = bisect_left(offsets, start)
    return offsets[first : bisect_left(offsets, end, lo=first)]
