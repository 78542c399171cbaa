"""The result of reading the events of one partition."""

from collections import Counter
from dataclasses import dataclass, field

from services.ops.findings import Finding, Table


@dataclass(slots=True)
class ReadingResult:
    """The result of reading the events of one partition."""

    findings: list[Finding] = field(default_factory=list)
    #: rows with receipts within the range that Kafka does not have
    without_record: list[Finding] = field(default_factory=list)
    records: int = 0
    filtered: int = 0
    probes: int = 0
    #: (event, destination) pairs without the filtered
    pairs: int = 0
    #: waiting (event, destination) pairs beyond the totals, which count an event once
    waiting_too: int = 0
    #: by table, duplicates
    duplicates: Counter[Table] = field(default_factory=Counter)
    #: by typed table, events for it: typed tables have no receipts
    without_receipts: Counter[Table] = field(default_factory=Counter)
    #: by table, missing events that may have been routed elsewhere
    unjudged: Counter[Table] = field(default_factory=Counter)
    #: number of such events
    events_unjudged: int = 0
    #: edited rows whose edit is unknown
    edits_unknown: int = 0
    #: by table and column, unreadable values: their number, and the offset of the first
    unread: dict[tuple[Table, str], tuple[int, int]] = field(default_factory=dict)

    def add_unread(self, table: Table, column: str, offset: int) -> None:
        """Count an unreadable value of the row at `offset`."""
        count, first = self.unread.get((table, column), (0, offset))
        self.unread[table, column] = (count + 1, first)
