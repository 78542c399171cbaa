"""A replication slot as the source's catalogue has it, and who reads it, as values."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Self

#: What pgoutput's slot says when the server gave up its WAL.
_LOST: Final = "lost"
#: What Debezium calls its session that reads a slot.
_OWN_PROGRAM: Final = "Debezium Streaming"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A replication slot; `retained_bytes` of WAL are kept for it."""

    active: bool
    wal_status: str
    retained_bytes: int
    #: Up to where the connector has said that Kafka has it.
    confirmed_lsn: str
    #: The session that reads it, and what that calls itself; empty when nobody does, or it is just ending.
    pid: int | None = None
    program: str = ""
    #: When that session began: another one may have its number later.
    since: str = ""

    @property
    def reader(self) -> str | None:
        """Return who reads it, so that no two sessions are taken for the same."""
        return None if self.pid is None else f"{self.pid}@{self.since}"

    @property
    def confirmed(self) -> int:
        """Return up to where it is confirmed, as a number."""
        return lsn_number(self.confirmed_lsn)

    @property
    def is_lost(self) -> bool:
        """Whether the server has removed WAL that it needs."""
        return self.wal_status == _LOST


class Reader(StrEnum):
    """Who reads a slot."""

    OWN = "own"
    OTHER = "other"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """Who read a slot at the last look, and up to where our connector can have confirmed it (0: unknown)."""

    last: Reader = Reader.NOBODY
    own: int = 0

    def after(self, slot: Slot, *, other: int | None = None) -> Self:
        """Return what is known after a look at `slot`; `other`: a session that kept our connector out."""
        reader = Reader.NOBODY
        if slot.active and slot.program:
            is_own = slot.program == _OWN_PROGRAM and slot.pid != other
            reader = Reader.OWN if is_own else Reader.OTHER
        own = self.own
        # What was confirmed before the first look, and between one at which it read and one at which nobody
        # does, can have been our connector.
        if not own or reader is Reader.OWN or (reader is Reader.NOBODY and self.last is Reader.OWN):
            own = max(own, slot.confirmed)
        return replace(self, last=reader, own=own)

    def is_beyond(self, slot: Slot) -> bool:
        """Whether somebody else has confirmed it further than our connector can have."""
        return self.last is not Reader.OWN and slot.confirmed > self.own


def lsn_number(lsn: str) -> int:
    """Return a position of the log as a number."""
    high, _, low = lsn.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


def lsn_text(lsn: int) -> str:
    """Return a position of the log as Postgres writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
