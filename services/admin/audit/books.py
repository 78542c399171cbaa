"""The books: what must hold among ledgers, totals, outbox, markers and counted rows.

Everything here is arithmetic over what was read before; no Kafka, no Postgres.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from services.admin.audit.settled_log import SettledLog, Totals
from services.admin.errors.records import ErrorEvent, Marker
from services.admin.findings import Code, Finding, Life, Line, Place, Report, Source
from services.admin.spans import History
from shared import wire

_LANDED: Final = ("landed", "replayed")


@dataclass(slots=True)
class DatabaseBooks:
    """One database's part."""

    ledger: Mapping[Life, int]
    totals: Mapping[tuple[Life, str, str], int]
    #: (source, offset, destination) in the outbox
    outbox: frozenset[tuple[Source, int, str]]
    #: (life, offset, destination) that wait in the database itself, behind a hold
    held: frozenset[tuple[Life, int, str]]
    #: rows of landing tables by source
    counts: Mapping[Place, Mapping[Source, int]]
    repeated: Sequence[tuple[Place, Source, int, int]]
    #: under which routes each range was settled
    history: Mapping[Life, History] = field(default_factory=dict)
    _counted: dict[Life, Counter[tuple[str, str]]] = field(default_factory=lambda: defaultdict(Counter))
    _held: dict[Life, set[tuple[int, str]]] = field(default_factory=lambda: defaultdict(set))
    _kept: dict[Source, set[tuple[int, str]]] = field(default_factory=lambda: defaultdict(set))

    def __post_init__(self) -> None:
        """Everything is asked for by partition: sorted out once, not read whole for each."""
        for (life, destination, outcome), n in self.totals.items():
            self._counted[life][destination, outcome] += n
        for life, offset, destination in self.held:
            self._held[life].add((offset, destination))
        for source, offset, destination in self.outbox:
            self._kept[source].add((offset, destination))

    def counted(self, life: Life) -> Mapping[tuple[str, str], int]:
        """(schema.table, outcome) -> events of `life`."""
        return self._counted.get(life, Counter())

    def held_of(self, life: Life) -> set[tuple[int, str]]:
        """(offset, destination) of `life` that wait in the database itself."""
        return self._held.get(life, set())

    def kept_of(self, source: Source) -> set[tuple[int, str]]:
        """(offset, destination) of `source` in the outbox."""
        return self._kept.get(source, set())


@dataclass(slots=True)
class Books:
    """Everything that was read, at one moment per database, Kafka's after the databases'."""

    databases: Mapping[str, DatabaseBooks]
    settled: SettledLog
    group: Mapping[Source, int]
    parked: Mapping[str, ErrorEvent]
    #: by (database, source): the offsets of diverted events in their order, and the markers of ranges
    diverted: Mapping[tuple[str, Source], Sequence[int]]
    markers: Mapping[tuple[str, Life], Sequence[Marker]]
    #: by source, what is on Kafka now
    spans: Mapping[Source, tuple[int, int]]
    lives: dict[Source, list[str]] = field(default_factory=dict)
    #: Where the writer's group stood before any database was read: all below it was settled in each.
    committed: Mapping[Source, int] = field(default_factory=dict)
    #: Partitions that nobody leads: what they hold is not here.
    leaderless: frozenset[Source] = frozenset()
    #: Records on Onramp's own topics that are none of Onramp's.
    foreign: int = 0
    _parked_from: dict[Source, list[ErrorEvent]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        """Lives of a topic in the order that the writer met them; the last is today's."""
        for event in self.parked.values():
            self._parked_from[event.source].append(event)
        order = {life: n for n, life in enumerate(self.settled.baselines)}
        found: dict[Source, set[str]] = defaultdict(set)
        for books in self.databases.values():
            for life in books.ledger:
                found[life.source].add(life.topic_id)
        self.lives = {
            s: sorted(ids, key=lambda i, s=s: order.get((i, s.partition), -1))  # type: ignore[misc]
            for s, ids in found.items()
        }

    def newest(self) -> list[Life]:
        """Today's life of every partition that a ledger knows."""
        return [Life(ids[-1], source) for source, ids in sorted(self.lives.items())]

    def of(self, source: Source) -> list[Life]:
        """Every life of `source` that a ledger knows."""
        return [Life(i, source) for i in self.lives.get(source, ())]

    def chain(self, source: Source) -> list[Life]:
        """The lives of the log that Kafka has today, the last of them today's."""
        ids = self.lives[source]
        followed = self.settled.followed(ids[-1], source.partition)
        return [Life(i, source) for i in followed if i in ids]

    def start(self, life: Life) -> int:
        """The first offset of `life`; 0 when none was ever written."""
        return min(self.baseline(life).values(), default=0)

    def stand(self, life: Life) -> int:
        """Up to where every event of `life` is settled or waits, in the database that is furthest."""
        return max(self.covered(n, life) for n, d in self.databases.items() if life in d.ledger)

    def having(self, source: Source, offset: int) -> list[Life]:
        """The lives of which `offset` is a settled one."""
        return [life for life in self.of(source) if self.start(life) <= offset < self.stand(life)]

    def baseline(self, life: Life) -> Mapping[str, int]:
        """First offsets, by database; empty when none was ever written."""
        return self.settled.baselines.get((life.topic_id, life.source.partition), {})

    def without_destination(self, life: Life) -> Totals:
        """Filtered, unroutable and refused."""
        return self.settled.totals.get((life.topic_id, life.source.partition), Totals())

    def waiting(self, database: str, life: Life) -> set[int]:
        """Offsets that wait for `database`: diverted, closed by a marker, above its ledger."""
        at = self.databases[database].ledger.get(life, 0)
        held = self.diverted.get((database, life.source), ())
        found: set[int] = set()
        for m in self.sorted_markers(database, life):
            found.update(between(held, max(m.start, at), m.end))
            at = max(at, m.end)  # of markers that overlap none is looked through twice
        return found

    def sorted_markers(self, database: str, life: Life) -> list[Marker]:
        """The markers of `life` for `database`, by where their ranges start."""
        return sorted(self.markers.get((database, life), ()), key=lambda m: m.start)

    def covered(self, database: str, life: Life) -> int:
        """Up to where every event of `life` is settled or waits in `database`."""
        at = self.databases[database].ledger.get(life, 0)
        for m in self.sorted_markers(database, life):
            if m.start <= at:
                at = max(at, m.end)
        return at

    def parked_keys(self, life: Life, database: str | None, below: int) -> set[tuple[int, str]]:
        """(offset, destination) that are parked by `database`; None: by none.

        Without a database the destination is a pointer into the packet, empty for the whole event.
        """
        prefix = ("/",) if database is None else (f"{database}.",)
        found = {
            (e.offset, e.destination)
            for e in self._parked_from.get(life.source, ())
            if self.start(life) <= e.offset < below
            and (e.destination.startswith(prefix) or (database is None and not e.destination))
        }
        # What goes nowhere and is too large for the topic may be in any outbox.
        for name in self.databases if database is None else (database,):
            kept = self.databases[name].kept_of(life.source)
            ours = ((o, d) for o, d in kept if self.start(life) <= o < below)
            found |= {(o, d) for o, d in ours if (not d or d.startswith("/")) is (database is None)}
        return found

    def is_shared(self, m: Marker) -> bool:
        """Whether another life has offsets of this range too: what waits names the topic, not its life."""
        lives = (life for life in self.of(m.source) if life.topic_id != m.topic_id)
        return any(self.start(life) < m.end and m.start < self.stand(life) for life in lives)


def between(offsets: Sequence[int], start: int, end: int) -> Sequence[int]:
    """Of `offsets`, which are in their order, those from `start` (included) to `end` (excluded)."""
    first = bisect_left(offsets, start)
    return offsets[first : bisect_left(offsets, end, lo=first)]


def line_of(books: Books, life: Life) -> Line:
    """The books of one life, as they are."""
    none = books.without_destination(life)
    names = [n for n, d in books.databases.items() if life in d.ledger]
    line = Line(life.topic_id, *life.source, books.start(life), books.stand(life))
    line.filtered, line.unroutable, line.refused = none.filtered, none.unroutable, none.refused
    outcomes: Counter[str] = Counter()
    for name in names:
        for (_, outcome), n in books.databases[name].counted(life).items():
            outcomes[outcome] += n
        line.waiting += len(books.waiting(name, life))
    line.waiting += outcomes.pop("waiting", 0)
    line.outcomes = dict(sorted(outcomes.items()))
    return line


def one_destination(books: Books, life: Life) -> bool:
    """Whether all events of `life` that have a destination have the same."""
    found = {(name, destination) for name, d in books.databases.items() for destination, _ in d.counted(life)}
    waits = {name for name in books.databases if books.waiting(name, life)}
    if len(found) > 1 or len(waits) > 1:
        return False
    return not waits or {name for name, _ in found} in (waits, set())


def check_markers(books: Books, life: Life) -> Iterable[Finding]:
    """Every undrained marker counts what the topic holds; else its drain would halt."""
    for database in books.databases:
        at = books.databases[database].ledger.get(life, 0)
        held = books.diverted.get((database, life.source), ())
        for m in books.markers.get((database, life), ()):
            found = len(between(held, m.start, m.end))
            if m.end > at and (found < m.count or (found > m.count and not books.is_shared(m))):
                yield Finding(
                    Code.BAD_MARKER,
                    life.source,
                    m.start,
                    f"the marker of [{m.start}, {m.end}) for {database} counts {m.count} events, "
                    f"{wire.SYSTEM_ERRORS} holds {found}",
                )


def check_rows(books: Books, report: Report) -> None:
    """Rows against landed totals, and no receipt twice."""
    for name, database in books.databases.items():
        landed: Counter[tuple[str, Source]] = Counter()
        for (life, destination, outcome), n in database.totals.items():
            if outcome in _LANDED:
                landed[destination, life.source] += n
        known = {life.source for life in database.ledger}
        for place, counts in database.counts.items():
            expected = {s: n for (d, s), n in landed.items() if d == place.destination}
            for source in sorted(counts.keys() | expected.keys()):
                report.findings += _row_count(place, source, counts, expected, known=source in known)
        for destination, source in landed:
            place = Place(name, *destination.split(".", 1))
            if place not in database.counts:
                report.unchecked.append(f"{place} keeps no receipts: its rows from {source} are not counted")
        for place, source, offset, n in database.repeated:
            if n > max(len(books.having(source, offset)), 1):
                text = f"{n} rows of {place} have this receipt"
                report.findings.append(Finding(Code.DUPLICATE, source, offset, text))


def _row_count(
    place: Place, source: Source, counts: Mapping[Source, int], expected: Mapping[Source, int], *, known: bool
) -> Iterable[Finding]:
    there, counted = counts.get(source, 0), expected.get(source, 0)
    if not known:
        yield Finding(Code.PHANTOM, source, None, f"{there} rows of {place} come from where no ledger was")
    elif there != counted:
        text = f"{place} has {there} rows from here, its totals say that {counted} landed"
        yield Finding(Code.WRONG_TOTAL, source, None, text)


def check_parked(books: Books, life: Life) -> Iterable[Finding]:
    """Parked totals against the distinct keys on the topic and in the outbox."""
    if any(len(books.having(life.source, books.start(of))) > 1 for of in books.of(life.source)):
        return  # the keys name the topic, not its life
    for name, database in books.databases.items():
        counted = sum(n for (_, outcome), n in database.counted(life).items() if outcome == "parked")
        kept = len(books.parked_keys(life, name, database.ledger.get(life, 0)))
        if kept != counted:
            text = f"{name} counts {counted} parked, {wire.USER_ERRORS} and the outbox hold {kept}"
            yield Finding(Code.WRONG_TOTAL, life.source, None, text)
    none = books.without_destination(life)
    kept = len(books.parked_keys(life, None, none.next_offset))
    if kept != none.refused:
        text = f"{none.refused} refused destinations are counted, {wire.USER_ERRORS} holds {kept}"
        yield Finding(Code.WRONG_TOTAL, life.source, None, text)


def check_held(books: Books, life: Life) -> Iterable[Finding]:
    """Waiting totals against the events that the databases hold."""
    for name, database in books.databases.items():
        counted = sum(n for (_, outcome), n in database.counted(life).items() if outcome == "waiting")
        kept = len(database.held_of(life))
        if kept != counted:
            text = f"{name} counts {counted} waiting, onramp.waiting holds {kept}"
            yield Finding(Code.WRONG_TOTAL, life.source, None, text)
