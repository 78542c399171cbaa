"""What the audit has found in one partition that it read again."""

from collections import Counter
from dataclasses import dataclass, field

from services.ops.findings import Finding, Table


@dataclass(slots=True)
class ReadingResult:
    """What the reading of one partition has found."""

    findings: list[Finding] = field(default_factory=list)
    records: int = 0
    filtered: int = 0
    probes: int = 0
    #: (event, destination) pairs without the filtered
    pairs: int = 0
    #: (event, destination) pairs that wait and that the books, which count an event once, leave out
    waiting_too: int = 0
    #: by table, events that it had already
    duplicates: Counter[Table] = field(default_factory=Counter)
    #: by typed table, events for it: they have no receipt to look for
    without_receipts: Counter[Table] = field(default_factory=Counter)
    #: by table, events that are not there, and that may have been routed elsewhere
    unjudged: Counter[Table] = field(default_factory=Counter)
    #: events of which that is so of some table
    events_unjudged: int = 0
    #: rows that an operator's edit has made, and nobody knows the edit
    edits_unknown: int = 0
    #: by table and column, values that cannot be read: how many, and the offset of the first
    unread: dict[tuple[Table, str], tuple[int, int]] = field(default_factory=dict)

    def add_unread(self, table: Table, column: str, offset: int) -> None:
        """Count a value of the row at `offset` that is not compared because it cannot be read."""
        count, first = self.unread.get((table, column), (0, offset))
        self.unread[table, column] = (count + 1, first)
