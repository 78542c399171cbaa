"""Values of a replication slot in the source's catalogue, and of its readers."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Self

#: The status of a slot whose WAL the server has removed.
_LOST: Final = "lost"
#: The application name of Debezium's session that reads a slot.
_OWN_PROGRAM: Final = "Debezium Streaming"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A replication slot; the server retains `retained_bytes` of WAL for it."""

    active: bool
    wal_status: str
    retained_bytes: int
    #: The position that the connector has confirmed as sent to Kafka.
    confirmed_lsn: str
    #: The session that reads the slot, and its application name; empty when there is none, or it is ending.
    pid: int | None = None
    program: str = ""
    #: The start of that session: a later session may have the same PID.
    since: str = ""

    @property
    def reader(self) -> str | None:
        """Return the reader as a text that no two sessions share."""
        return None if self.pid is None else f"{self.pid}@{self.since}"

    @property
    def confirmed(self) -> int:
        """Return the confirmed position as a number."""
        return lsn_number(self.confirmed_lsn)

    @property
    def is_lost(self) -> bool:
        """Return whether the server has removed WAL that the slot needs."""
        return self.wal_status == _LOST


class Reader(StrEnum):
    """Readers of a slot."""

    OWN = "own"
    OTHER = "other"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """The reader of a slot at the last poll, and the highest position of our connector (0: unknown)."""

    last: Reader = Reader.NOBODY
    own: int = 0

    def after(self, slot: Slot, *, other: int | None = None) -> Self:
        """Return the readers after a poll of `slot`; `other`: a session that blocked our connector."""
        reader = Reader.NOBODY
        if slot.active and slot.program:
            is_own = slot.program == _OWN_PROGRAM and slot.pid != other
            reader = Reader.OWN if is_own else Reader.OTHER
        own = self.own
        # Our connector can have confirmed positions before the first poll, and between a poll at which it
        # read and one without a reader.
        if not own or reader is Reader.OWN or (reader is Reader.NOBODY and self.last is Reader.OWN):
            own = max(own, slot.confirmed)
        return replace(self, last=reader, own=own)

    def is_beyond(self, slot: Slot) -> bool:
        """Return whether another reader has confirmed a position beyond those of our connector."""
        return self.last is not Reader.OWN and slot.confirmed > self.own


def lsn_number(lsn: str) -> int:
    """Return an LSN as a number."""
    high, _, low = lsn.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


def lsn_text(lsn: int) -> str:
    """Return an LSN as Postgres writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
