"""Checks of a lake's table against its own positions and against Kafka's records; no input or output."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date
from typing import Final

from services.ops.audit.classify import Event, Kind
from services.ops.findings import Code, Finding, LakeLine, Source
from services.ops.lake.delta_receipts import MissingFile, TableReceipts, repeated
from shared import envelope
from shared.errors import UserError
from shared.lake.lake_topic import PositionKey
from shared.parse.one_by_one import read_one

_RESTORE: Final = "restore the file, or the table and its events: docs/lake.md"


def lines_of(receipts: TableReceipts) -> Iterator[LakeLine]:
    """Yield the totals of each Kafka partition of a table, over all generations of its topic."""
    sources = {Source(key.topic, key.partition) for key in receipts.positions} | receipts.offsets.keys()
    for source in sorted(sources):
        of_source = [p for k, p in receipts.positions.items() if Source(k.topic, k.partition) == source]
        yield LakeLine(
            table=receipts.table,
            topic=source.topic,
            partition=source.partition,
            next_offset=max((position.next_offset for position in of_source), default=0),
            landed=sum(position.landed for position in of_source),
            dropped=receipts.dropped.get(source, 0),
            rows=len(receipts.offsets.get(source, ())),
        )


def check_totals(receipts: TableReceipts, line: LakeLine) -> Iterator[Finding]:
    """Yield violations of a partition without reading Kafka."""
    source, table = Source(line.topic, line.partition), f"lake.{line.table}"
    if line.rows + line.dropped != line.landed:
        text = f"{table} has {line.rows} rows where its log counts {line.landed} landed"
        dropped = f", {line.dropped} of them dropped by keep_days" if line.dropped else ""
        yield Finding(Code.WRONG_TOTAL, source, None, text + dropped)
    if _generations(receipts, source) > 1:
        return  # the offsets of a recreated topic begin again
    for offset, rows in repeated(receipts.offsets.get(source, memoryview(b"").cast("q"))):
        yield Finding(Code.DUPLICATE, source, offset, f"{rows} rows of {table} have this receipt")


def check_files(receipts: TableReceipts, topics: Sequence[str]) -> Iterator[Finding]:
    """Yield each data file that cannot be read, with the receipts that the log states for it."""
    for file in receipts.missing:
        yield Finding(Code.LOST, _source_of(file, topics), None, _sentence(receipts.table, file), _RESTORE)


def _generations(receipts: TableReceipts, source: Source) -> int:
    keys = receipts.positions
    return len({key.topic_id for key in keys if Source(key.topic, key.partition) == source})


def _source_of(file: MissingFile, topics: Sequence[str]) -> Source:
    return Source(topics[0] if topics else "", file.partitions[0] if file.partitions else 0)


def _sentence(table: str, file: MissingFile) -> str:
    rows = "its rows" if file.rows is None else f"its {file.rows} rows"
    where = ""
    if file.partitions and file.offsets:
        low, high = file.partitions
        partitions = f"partition {low}" if low == high else f"partitions {low} to {high}"
        where = f", offsets {file.offsets[0]} to {file.offsets[1]} of {partitions}"
    return f"data file {file.path} of lake.{table} cannot be read, so {rows} are missing{where}: {file.error}"


class ReceiptCheck:
    """Compares the rows of one table and partition with Kafka's records, in one pass in offset order."""

    def __init__(
        self,
        receipts: TableReceipts,
        key: PositionKey,
        *,
        first: int,
        start: int,
        upto: int,
        is_for_table: Callable[[str], bool],
    ) -> None:
        """`first`: Kafka's first offset. Events from `start` to `upto` have landed in the table."""
        self._table = f"lake.{receipts.table}"
        self.source = Source(key.topic, key.partition)
        self._offsets = receipts.offsets.get(self.source, memoryview(b"").cast("q"))
        self._at = bisect_left(self._offsets, first)
        self._start, self._upto = start, upto
        self._is_for_table = is_for_table
        self._dropped_before = receipts.dropped_before
        self.findings: list[Finding] = []

    def check(self, event: Event) -> None:
        """Check the event of one record, and rows without a record before it."""
        self._check_rows_below(event.offset)
        has_row = False
        while self._at < len(self._offsets) and self._offsets[self._at] == event.offset:
            has_row = True
            self._at += 1
        is_ours = event.kind in (Kind.ENVELOPE, Kind.PROBE) and self._is_for_table(event.name)
        if has_row and not is_ours and event.kind is not Kind.PACKET:
            self._report(Code.PHANTOM, event.offset, f"a row of {self._table} for an event of no such type")
        elif is_ours and not has_row and self._start <= event.offset < self._upto and self._must_exist(event):
            self._report(Code.LOST, event.offset, f"no row of {self._table} has this receipt")

    def finish(self) -> list[Finding]:
        """Check the remaining rows, and return all violations."""
        self._check_rows_below(None)
        return self.findings

    def _check_rows_below(self, offset: int | None) -> None:
        while self._at < len(self._offsets) and (offset is None or self._offsets[self._at] < offset):
            row = self._offsets[self._at]
            where = "has a receipt that Kafka does not know" if row < self._upto else "is above its position"
            self._report(Code.PHANTOM, row, f"a row of {self._table} {where}")
            self._at += 1

    def _must_exist(self, event: Event) -> bool:
        """Return whether a valid event of a date that was not dropped has no row."""
        if isinstance(read_one(event.value), UserError):
            return False  # parked: the audit's classification is more lenient
        parsed = envelope.parse(event.value or b"")
        day: date = parsed.metadata.timestamp.astimezone(UTC).date()
        return self._dropped_before is None or day >= self._dropped_before

    def _report(self, code: Code, offset: int, detail: str) -> None:
        self.findings.append(Finding(code, self.source, offset, detail))
