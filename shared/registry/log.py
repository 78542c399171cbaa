"""The port of the log that stores the registry, and the in-memory log."""

from typing import NamedTuple, Protocol


class Record(NamedTuple):
    """A record and its offset."""

    offset: int
    value: bytes | None


class Span(NamedTuple):
    """The offsets of a log: the first one still stored, and the next to assign."""

    first: int
    end: int


class RegistryLog(Protocol):
    """One sequence of records with many writers, which is never truncated.

    Every method raises `InfrastructureError` if the log is unreachable, and may be called from any
    thread, one call at a time.
    """

    def span(self) -> Span:
        """Return what there is to read."""
        ...

    def read(self, first: int, end: int) -> list[Record]:
        """Return the records from offset `first` to before `end`, in order; offsets may have holes."""
        ...

    def append(self, value: bytes) -> int:
        """Write a record durably, and return its offset.

        After an error it is unknown whether the record was written.
        """
        ...

    def close(self) -> None:
        """Close connections."""
        ...


class MemoryLog:
    """A log in memory, for tests; several registries may share it."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.first = 0

    def span(self) -> Span:
        """Return what there is to read."""
        return Span(self.first, self.records[-1].offset + 1 if self.records else self.first)

    def read(self, first: int, end: int) -> list[Record]:
        """Return the records in a range of offsets."""
        return [each for each in self.records if first <= each.offset < end]

    def append(self, value: bytes) -> int:
        """Write a record and return its offset."""
        offset = self.span().end
        self.records.append(Record(offset, value))
        return offset

    def close(self) -> None:
        """Do nothing."""
