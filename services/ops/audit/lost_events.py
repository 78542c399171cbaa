"""Checks receipts: reads every event of a partition and searches its row.

It merges Kafka's records and the rows with receipts by offset, so memory does not grow with the
topic.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Final

from services.ops.audit.audit_data import AuditData
from services.ops.audit.classify import Event, Kind, classify, read
from services.ops.audit.concurrent_writer import in_progress
from services.ops.audit.reading_result import ReadingResult
from services.ops.audit.replays import (
    Edits,
    ReplayedEvents,
    wrong_row,
    wrong_rows_of_refused,
)
from services.ops.audit.settled_log import Routed
from services.ops.audit.settled_routes import SettledRoutes
from services.ops.audit.topic_generations import ReadableRange
from services.ops.findings import Code, Finding, Replayed, Table
from services.ops.kafka_logs import LogRecord
from services.ops.totals_sql import Row, Snapshot

_SEARCH_SIZE: Final = 1000

#: An offset, and the row of a table with that receipt.
PlacedRow = tuple[int, Table, Row]


class Reading:
    """Reads one generation of a partition in one pass, in the order of its offsets."""

    def __init__(
        self,
        data: AuditData,
        snapshots: Mapping[str, Snapshot],
        readable: ReadableRange,
        edits: Edits,
        default: str,
    ) -> None:
        self._data = data
        self._edits = edits
        self._snapshots = snapshots
        self._readable = readable
        self._generation = generation = readable.generation
        self._upto = upto = readable.upto
        self._routes = SettledRoutes(data, generation, default)
        self._parked = {n: data.parked_keys(generation, n, upto) for n in snapshots}
        self._refused: dict[int, set[str]] = defaultdict(set)
        for offset, pointer in data.parked_keys(generation, None, upto):
            self._refused[offset].add(pointer)
        self._waiting = {n: data.waiting(n, generation) for n in snapshots}
        self._in_progress = {n: in_progress(data, generation, n) for n in snapshots}
        self._waiting_here = {n: data.databases[n].waiting_of(generation) for n in snapshots}
        self._replayed = {n: ReplayedEvents(s, data.databases[n], generation) for n, s in snapshots.items()}
        self._absent: dict[Table, list[Event]] = {}
        self.result = ReadingResult()

    async def run(self, records: AsyncIterator[LogRecord]) -> ReadingResult:
        """Check each of `records`, which are in the order of their offsets."""
        rows = heapq.merge(*self._streams(), key=lambda placed: placed[0])
        ahead = next(rows, None)
        async for record in records:
            here: list[PlacedRow] = []
            while ahead is not None and ahead[0] <= record.offset:
                if ahead[0] == record.offset:
                    here.append(ahead)
                else:
                    self._report_unknown(ahead)
                ahead = next(rows, None)
            self._judge(classify(record, self._generation.source.topic), here)
        while ahead is not None:
            self._report_unknown(ahead)
            ahead = next(rows, None)
        for table in list(self._absent):
            self._search_by_id(table)
        return self.result

    def _streams(self) -> Iterator[Iterator[PlacedRow]]:
        for snapshot in self._snapshots.values():
            for table in snapshot.tables:
                if self._generation.source in self._data.databases[table.database].counts[table]:
                    yield _with_table(table, snapshot.rows(table, self._generation.source))

    def _report_unknown(self, placed: PlacedRow) -> None:
        """Report a row whose receipt names no settled record."""
        offset, table, _ = placed
        if offset < self._readable.shared or (
            self._readable.until is not None and offset >= self._readable.until
        ):
            return  # another generation's
        if offset >= self._upto:
            self._report(Code.PHANTOM, offset, f"a row of {table} is above the ledger")
        elif offset >= self._readable.first:
            text = f"a row of {table} has a receipt that Kafka does not know"
            self.result.without_record.append(Finding(Code.PHANTOM, self._generation.source, offset, text))

    def _report(self, code: Code, offset: int, detail: str) -> None:
        self.result.findings.append(Finding(code, self._generation.source, offset, detail))

    def _judge(self, event: Event, rows: list[PlacedRow]) -> None:
        self.result.records += 1
        if event.kind is Kind.PROBE:
            self.result.probes += 1
        elif event.offset < self._readable.shared:
            self._judge_shared(event, rows)
        elif event.kind is Kind.FILTERED:
            self.result.filtered += 1
            for _, table, _ in rows:
                self._report(Code.DOUBLE_TERMINAL, event.offset, f"filtered, and a row of {table}")
        elif event.kind is Kind.CHANGE and event.offset not in self._refused:
            self._judge_change()
        elif event.kind is Kind.PACKET:
            self._judge_packet(event)
        elif event.kind is Kind.UNROUTABLE or event.offset in self._refused:
            self._judge_refused(event, rows)
        else:
            self._judge_envelope(event, rows)

    def _judge_shared(self, event: Event, rows: list[PlacedRow]) -> None:
        """Check an event whose receipt exists in another generation too: its row has its id."""
        if event.kind is Kind.UNROUTABLE:
            self._judge_refused(event, None)
        elif event.kind is Kind.ENVELOPE and event.offset not in self._refused:
            for routed in sorted(self._expected(event)[0]):
                here = [row for _, table, row in rows if table == routed.table and row.id == event.id]
                if here or not self._is_elsewhere(event, routed.table):
                    self._judge_row(event, routed, here)

    def _judge_change(self) -> None:
        """Count a change: its landing table has the offset, and is trimmed."""
        topic = self._generation.source.topic
        databases = self._data.settled.databases_of_changes(topic)
        closed = databases & self._data.closed.keys()
        if not closed:
            self.result.pairs += 1
        elif closed < databases:  # its source was published to another database meanwhile
            self.result.unjudged[Table(min(databases - closed), "landing", topic)] += 1
            self.result.events_unjudged += 1

    def _judge_packet(self, event: Event) -> None:
        """Count a packet's outcomes; its tables keep no receipts."""
        refused = self._refused.get(event.offset, set())
        if "" in refused:
            self.result.pairs += 1
            return
        by_database = event.destinations(refused)
        for closed in self._data.closed:
            del by_database[closed]  # a Counter's: also if it has none
        self.result.pairs += len(refused) + by_database.total()
        self._count_waiting_too(event, by_database)

    def _judge_refused(self, event: Event, rows: list[PlacedRow] | None) -> None:
        """Check an event that should be, or is, parked without a destination."""
        self.result.pairs += 1
        if event.offset not in self._refused:
            self._report(Code.LOST, event.offset, "no envelope and no packet, and it is not parked")
        if rows is None:
            return
        sent = read(event.offset, event.value)
        is_same = (lambda r, t, row: self._is_same(sent, r, t, [row])) if sent.kind is Kind.ENVELOPE else None
        for wrong in wrong_rows_of_refused(event.offset, rows, self._replayed, is_same):
            self._report(wrong.code, event.offset, wrong.detail)

    def _judge_envelope(self, event: Event, rows: list[PlacedRow]) -> None:
        sure, possible = self._expected(event)
        unjudged_before = self.result.unjudged.total()
        judged: Counter[str] = Counter()
        for routed in sorted(possible):
            here = [row for _, table, row in rows if table == routed.table]
            if routed in sure or here or self._is_parked_or_waiting(event, routed.table):
                judged[routed.table.database] += 1
                self._judge_table(event, routed, here)
            else:
                self.result.unjudged[routed.table] += 1
        self.result.pairs += judged.total()
        self._count_waiting_too(event, judged)
        self.result.events_unjudged += self.result.unjudged.total() > unjudged_before
        tables = {r.table for r in possible}
        for _, table, row in rows:
            if table in tables:
                continue
            replayed = self._replayed[table.database].landed_in(event.offset, table)
            if replayed is None:
                self._report(Code.PHANTOM, event.offset, f"a row of {table}, where its event does not go")
            elif wrong := wrong_row(
                replayed._replace(to=None), [row], table, same=self._is_same(event, replayed, table, [row])
            ):
                self._report(wrong.code, event.offset, wrong.detail)

    def _count_waiting_too(self, event: Event, by_database: Mapping[str, int]) -> None:
        """Count an event that waits for a database once for each of its tables there."""
        for database, waiting in self._waiting.items():
            if event.offset in waiting:
                self.result.waiting_too += max(by_database.get(database, 0) - 1, 0)

    def _expected(self, event: Event) -> tuple[set[Routed], set[Routed]]:
        """Return the event's tables, and its possible tables: more if its routes are unknown."""
        sure: set[Routed] = set()
        possible: set[Routed] = set()
        for database in self._snapshots:
            if self._must_have_settled(database, event.offset):
                choices = self._routes.choices(database, event.name, event.offset)
                sure |= frozenset.intersection(*choices)
                possible |= frozenset.union(*choices)
        return sure, possible

    def _is_parked_or_waiting(self, event: Event, table: Table) -> bool:
        """Return whether the event is parked for `table`, or waits for it in its database."""
        parked = (event.offset, str(table)) in self._parked[table.database]
        return parked or (event.offset, table.destination) in self._waiting_here[table.database]

    def _is_elsewhere(self, event: Event, table: Table) -> bool:
        """Return whether the event is parked for `table`, or waits for it anywhere."""
        return event.offset in self._waiting[table.database] or self._is_parked_or_waiting(event, table)

    def _must_have_settled(self, database: str, offset: int) -> bool:
        """Return whether `offset` must be settled in this database: it was registered, and has reached it."""
        ahead = offset in self._in_progress[database]
        return not ahead and offset >= self._data.baseline(self._generation).get(database, 0)

    def _judge_table(self, event: Event, routed: Routed, rows: list[Row]) -> None:
        table = routed.table
        parked = (event.offset, str(table)) in self._parked[table.database]
        held = (event.offset, table.destination) in self._waiting_here[table.database]
        waits = held or event.offset in self._waiting[table.database]
        replayed = self._replayed[table.database].of(event.offset, table) if parked and not waits else None
        if replayed and self._has_receipts(routed):
            self._judge_replayed(event, table, replayed, rows)
            return
        outcomes = [
            name for name, there in (("landed", rows), ("parked", parked), ("waiting", waits)) if there
        ]
        if len(outcomes) > 1:
            self._report(Code.DOUBLE_TERMINAL, event.offset, f"{' and '.join(outcomes)} for {table}")
        elif rows or not outcomes:
            self._judge_row(event, routed, rows)

    def _judge_replayed(self, event: Event, table: Table, replayed: Replayed, rows: list[Row]) -> None:
        same = self._is_same(event, replayed, table, rows)
        if wrong := wrong_row(replayed, rows, table, same=same):
            self._report(wrong.code, event.offset, wrong.detail)

    def _is_same(self, event: Event, replayed: Replayed, table: Table, rows: list[Row]) -> bool:
        """Return whether the rows are those that landed by the replay, as far as it is known."""
        as_landed: Event | None = event
        if rows and replayed.sha256 is not None:
            edited = self._edits.edited(event.value, replayed, self._generation)
            as_landed = None if edited is None else event.edited(edited)
            self.result.edits_unknown += edited is None
        return as_landed is None or all(self._is_event(as_landed, table, row) for row in rows)

    def _is_event(self, event: Event, table: Table, row: Row) -> bool:
        """Return whether `row` is `event`; count values that cannot be read."""
        return row.id == event.id and self._has_body(event, table, row)

    def _has_body(self, event: Event, table: Table, row: Row) -> bool:
        same, unread = event.compared(row)
        for column in unread:
            self.result.add_unread(table, column, row.offset)
        return same

    def _judge_row(self, event: Event, routed: Routed, rows: list[Row]) -> None:
        """Check an event that is not parked and does not wait."""
        table = routed.table
        if not rows and not self._has_receipts(routed):
            self.result.without_receipts[table] += 1
        elif not rows:
            self._absent.setdefault(table, []).append(event)
            if len(self._absent[table]) >= _SEARCH_SIZE:
                self._search_by_id(table)
        elif len(rows) == 1 and not self._is_event(event, table, rows[0]):
            self._report(Code.CORRUPT, event.offset, f"the row of {table} is not what Kafka holds")

    def _has_receipts(self, routed: Routed) -> bool:
        """Return whether the event's row can be searched: its table has readable receipts."""
        of = self._snapshots[routed.table.database]
        return of.exists(routed.table) if routed.typed else routed.table not in of.unreadable

    def _search_by_id(self, table: Table) -> None:
        """Look up events by id: they are duplicates if their table has their ids, else lost."""
        events = self._absent.pop(table)
        snapshot = self._snapshots[table.database]
        there = snapshot.by_id(table, [e.id for e in events]) if snapshot.exists(table) else {}
        for event in events:
            row = there.get(event.id)
            if row is None:
                self._report(Code.LOST, event.offset, f"in no place of {table}")
            elif row.source == self._generation.source and row.offset > max(
                event.offset, self._readable.shared - 1
            ):
                # The first of equal ids lands; a later receipt is another event's.
                self._report(
                    Code.LOST, event.offset, f"its id is in {table} with the later receipt {row.offset}"
                )
            elif self._has_body(event, table, row):
                self.result.duplicates[table] += 1
            else:
                text = f"not in {table}, which has another event under its id"
                self._report(Code.LOST, event.offset, text)


def _with_table(table: Table, rows: Iterator[Row]) -> Iterator[PlacedRow]:
    """Return `rows` with their table: an expression in the loop would bind its last table."""
    return ((row.offset, table, row) for row in rows)
