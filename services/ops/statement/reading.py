"""A reading: each database's ledger, routed events and outcomes at one moment, as it is stored for later.

Two readings of a database differ by exactly the outcomes of the offsets between their ledgers, because the
writer moves both in one transaction.
"""

import zlib
from datetime import datetime
from typing import Final, Self

import msgspec

#: Outcomes that exclude each other: their sum is the number of routed events.
OUTCOMES: Final = ("landed", "duplicate", "parked", "waiting")


class StoredReading(msgspec.Struct):
    """A reading of one part at one time."""

    at: datetime

    def as_bytes(self) -> bytes:
        """Return the reading as compressed JSON."""
        return zlib.compress(msgspec.json.encode(self))

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Return the reading that `as_bytes` wrote.  Raise one of `UNREADABLE` or `zlib.error`."""
        return msgspec.json.decode(zlib.decompress(content), type=cls)


class Uncounted(msgspec.Struct, frozen=True):
    """Offsets below a ledger that no database counts."""

    filtered: int = 0
    unroutable: int = 0
    holes: int = 0

    def __add__(self, other: "Uncounted") -> "Uncounted":
        return Uncounted(
            self.filtered + other.filtered, self.unroutable + other.unroutable, self.holes + other.holes
        )

    def __sub__(self, other: "Uncounted") -> "Uncounted":
        return Uncounted(
            self.filtered - other.filtered, self.unroutable - other.unroutable, self.holes - other.holes
        )


class Counts(msgspec.Struct):
    """Events of one destination: routed to it, and by outcome."""

    routed: int = 0
    outcomes: dict[str, int] = {}


class TopicReading(msgspec.Struct):
    """One topic generation in one database."""

    topic: str
    #: By partition the next offset and, where it is known, the first offset.
    next_offsets: dict[int, int]
    first_offsets: dict[int, int] = {}
    #: By schema.table.
    destinations: dict[str, Counts] = {}
    #: Offsets that an operator skipped.
    skipped: int = 0
    #: Offsets that the writer has passed and this database has not: their events wait on Kafka.
    diverted: int = 0
    #: None: not known at these offsets.
    uncounted: Uncounted | None = None


class SourceTable(msgspec.Struct):
    """The merge of one table of a source, as of the reading."""

    source: str
    table: str
    destination: str
    merged: int
    repeated: int
    suspended: str | None = None


class DatabaseReading(StoredReading):
    """One database, by topic id."""

    topics: dict[str, TopicReading]
    tables: list[SourceTable] = []
