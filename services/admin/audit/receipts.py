"""The receipts: every event of a partition is read again and looked for in its places.

A merge by offset of what Kafka holds and of the rows that claim to come from there, so
memory does not grow with the topic.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from services.admin.audit.books import Books
from services.admin.audit.classify import Event, Kind, classify
from services.admin.audit.incarnations import Part
from services.admin.audit.motion import under_way
from services.admin.audit.settled_log import Routed
from services.admin.audit.settled_under import Under
from services.admin.books_sql import Row, Snapshot
from services.admin.findings import Code, Finding, Place
from services.admin.kafka_logs import LogRecord

_LOOK_UP_AT: Final = 1000

At = tuple[int, Place, Row]


@dataclass(slots=True)
class Seen:
    """What the reading of one partition has found."""

    findings: list[Finding] = field(default_factory=list)
    records: int = 0
    filtered: int = 0
    probes: int = 0
    #: (event, destination) pairs without the filtered
    pairs: int = 0
    #: (event, destination) pairs that wait and that the books, which count an event once, leave out
    waiting_too: int = 0
    #: by place, events that the table had already
    duplicates: Counter[Place] = field(default_factory=Counter)
    #: by place, events for typed tables: they have no receipt to look for
    unseen: Counter[Place] = field(default_factory=Counter)
    #: by place, events that are not there, and that may have been routed elsewhere
    unjudged: Counter[Place] = field(default_factory=Counter)
    #: events of which that is so of some place
    events_unjudged: int = 0


class Reading:
    """One partition's life, read from its first offset that is left to `upto`."""

    def __init__(self, books: Books, snapshots: Mapping[str, Snapshot], part: Part) -> None:
        self._books = books
        self._snapshots = snapshots
        self._part = part
        self._life = life = part.life
        self._upto = upto = part.upto
        self._under = Under(books, life, next(iter(snapshots)))
        self._parked = {n: books.parked_keys(life, n, upto) for n in snapshots}
        self._refused: dict[int, set[str]] = defaultdict(set)
        for offset, pointer in books.parked_keys(life, None, upto):
            self._refused[offset].add(pointer)
        self._waiting = {n: books.waiting(n, life) for n in snapshots}
        self._under_way = {n: under_way(books, life, n) for n in snapshots}
        self._held = {n: books.databases[n].held_of(life) for n in snapshots}
        self._absent: dict[Place, list[Event]] = {}
        self.seen = Seen()

    async def run(self, records: AsyncIterator[LogRecord]) -> Seen:
        """Read `records`, which stand in the order of their offsets, and judge each."""
        rows = heapq.merge(*self._streams(), key=lambda at: at[0])
        ahead = next(rows, None)
        async for record in records:
            here: list[At] = []
            while ahead is not None and ahead[0] <= record.offset:
                if ahead[0] == record.offset:
                    here.append(ahead)
                else:
                    self._unknown(ahead)
                ahead = next(rows, None)
            self._judge(classify(record), here)
        while ahead is not None:
            self._unknown(ahead)
            ahead = next(rows, None)
        for place in list(self._absent):
            self._look_up(place)
        return self.seen

    def _streams(self) -> Iterator[Iterator[At]]:
        for snapshot in self._snapshots.values():
            for table in snapshot.tables:
                if self._life.source in self._books.databases[table.database].counts[table]:
                    yield _placed(table, snapshot.rows(table, self._life.source))

    def _unknown(self, at: At) -> None:
        """A row whose receipt is no record that is settled."""
        offset, place, _ = at
        if offset < self._part.shared or (self._part.until is not None and offset >= self._part.until):
            return  # another life's
        if offset >= self._upto:
            self._find(Code.PHANTOM, offset, f"a row of {place} is above the ledger")
        elif offset >= self._part.first:
            self._find(Code.PHANTOM, offset, f"a row of {place} has a receipt that Kafka does not know")

    def _find(self, code: Code, offset: int, detail: str) -> None:
        self.seen.findings.append(Finding(code, self._life.source, offset, detail))

    def _judge(self, event: Event, rows: list[At]) -> None:
        seen = self.seen
        seen.records += 1
        if event.kind is Kind.PROBE:
            seen.probes += 1
        elif event.offset < self._part.shared:
            self._judge_shared(event, rows)
        elif event.kind is Kind.FILTERED:
            seen.filtered += 1
            for _, place, _ in rows:
                self._find(Code.DOUBLE_TERMINAL, event.offset, f"filtered, and a row of {place}")
        elif event.kind is Kind.PACKET:
            self._judge_packet(event)
        elif event.kind is Kind.UNROUTABLE or event.offset in self._refused:
            self._judge_refused(event, rows)
        else:
            self._judge_envelope(event, rows)

    def _judge_shared(self, event: Event, rows: list[At]) -> None:
        """An event whose receipt another life has too: of what bears that, its own is what has its id."""
        if event.kind is Kind.UNROUTABLE:
            self._judge_refused(event, [])
        elif event.kind is Kind.ENVELOPE and event.offset not in self._refused:
            for routed in sorted(self._expected(event)[0]):
                here = [row for _, place, row in rows if place == routed.place and row.id == event.id]
                if here or not self._is_elsewhere(event, routed.place):
                    self._judge_row(event, routed, here)

    def _judge_packet(self, event: Event) -> None:
        """A packet's outcomes are counted; its tables keep no receipts."""
        refused = self._refused.get(event.offset, set())
        if "" in refused:
            self.seen.pairs += 1
            return
        places = event.destinations(refused)
        self.seen.pairs += len(refused) + places.total()
        self._see_waiting(event, places)

    def _judge_refused(self, event: Event, rows: list[At]) -> None:
        """An event that should be, or is, parked without a destination."""
        self.seen.pairs += 1
        if event.offset not in self._refused:
            self._find(Code.LOST, event.offset, "no envelope and no packet, and it is not parked")
        for _, place, _ in rows:
            self._find(Code.DOUBLE_TERMINAL, event.offset, f"parked, and a row of {place}")

    def _judge_envelope(self, event: Event, rows: list[At]) -> None:
        sure, possible = self._expected(event)
        unjudged = self.seen.unjudged.total()
        judged: Counter[str] = Counter()
        for routed in sorted(possible):
            here = [row for _, place, row in rows if place == routed.place]
            if routed in sure or here or self._is_kept(event, routed.place):
                judged[routed.place.database] += 1
                self._judge_place(event, routed, here)
            else:
                self.seen.unjudged[routed.place] += 1
        self.seen.pairs += judged.total()
        self._see_waiting(event, judged)
        self.seen.events_unjudged += self.seen.unjudged.total() > unjudged
        places = {r.place for r in possible}
        for _, place, _ in rows:
            if place not in places:
                self._find(Code.PHANTOM, event.offset, f"a row of {place}, where its event does not go")

    def _see_waiting(self, event: Event, places: Mapping[str, int]) -> None:
        """An event that waits for a database waits for each of its `places` there."""
        for database, waiting in self._waiting.items():
            if event.offset in waiting:
                self.seen.waiting_too += max(places.get(database, 0) - 1, 0)

    def _expected(self, event: Event) -> tuple[set[Routed], set[Routed]]:
        """Where the event went, and where it may have gone, which is more where nobody knows its routes."""
        sure: set[Routed] = set()
        possible: set[Routed] = set()
        for database in self._snapshots:
            if self._has_seen(database, event.offset):
                choices = self._under.choices(database, event.name, event.offset)
                sure |= frozenset.intersection(*choices)
                possible |= frozenset.union(*choices)
        return sure, possible

    def _is_kept(self, event: Event, place: Place) -> bool:
        """Whether the event is parked for `place`, or waits for it in its database."""
        parked = (event.offset, str(place)) in self._parked[place.database]
        return parked or (event.offset, place.destination) in self._held[place.database]

    def _is_elsewhere(self, event: Event, place: Place) -> bool:
        """Whether the event is parked for `place`, or waits for it anywhere."""
        return event.offset in self._waiting[place.database] or self._is_kept(event, place)

    def _has_seen(self, database: str, offset: int) -> bool:
        """Whether `offset` is this database's matter: it was there already, and has come to it."""
        ahead = offset in self._under_way[database]
        return not ahead and offset >= self._books.baseline(self._life).get(database, 0)

    def _judge_place(self, event: Event, routed: Routed, rows: list[Row]) -> None:
        place = routed.place
        parked = (event.offset, str(place)) in self._parked[place.database]
        held = (event.offset, place.destination) in self._held[place.database]
        waits = held or event.offset in self._waiting[place.database]
        found = [name for name, there in (("landed", rows), ("parked", parked), ("waiting", waits)) if there]
        if len(found) > 1:
            self._find(Code.DOUBLE_TERMINAL, event.offset, f"{' and '.join(found)} for {place}")
        elif rows or not found:
            self._judge_row(event, routed, rows)

    def _judge_row(self, event: Event, routed: Routed, rows: list[Row]) -> None:
        """An event that is not parked and does not wait."""
        place = routed.place
        if not rows and routed.typed:
            self.seen.unseen[place] += 1
        elif not rows:
            self._absent.setdefault(place, []).append(event)
            if len(self._absent[place]) >= _LOOK_UP_AT:
                self._look_up(place)
        elif len(rows) == 1 and not event.same_as(rows[0]):
            self._find(Code.CORRUPT, event.offset, f"the row of {place} is not what Kafka holds")

    def _look_up(self, place: Place) -> None:
        """Events without a place are duplicates if their table has their ids, else lost."""
        events = self._absent.pop(place)
        snapshot = self._snapshots[place.database]
        there = snapshot.by_id(place, [e.id for e in events]) if snapshot.exists(place) else {}
        for event in events:
            row = there.get(event.id)
            if row is None:
                self._find(Code.LOST, event.offset, f"in no place of {place}")
            elif row.source == self._life.source and row.offset > max(event.offset, self._part.shared - 1):
                # Of equal ids the first lands; a later receipt is another event's.
                self._find(
                    Code.LOST, event.offset, f"its id is in {place} with the later receipt {row.offset}"
                )
            elif event.same_body(row):
                self.seen.duplicates[place] += 1
            else:
                text = f"not in {place}, which has another event under its id"
                self._find(Code.LOST, event.offset, text)


def _placed(table: Place, rows: Iterator[Row]) -> Iterator[At]:
    """`rows` with their table: a function, because an expression in the loop would see its last table."""
    return ((row.offset, table, row) for row in rows)
