"""The log that the registry is kept in, as a port; and the log in memory."""

from typing import NamedTuple, Protocol


class Record(NamedTuple):
    """A record and its offset."""

    offset: int
    value: bytes | None


class Span(NamedTuple):
    """The offsets of a log: the first that it still has, and the next that it will give."""

    first: int
    end: int


class RegistryLog(Protocol):
    """One sequence of records, to which many write and which nobody shortens.

    Every method raises `InfrastructureError` when the log cannot be reached, and may be called from any
    thread, by one at a time.
    """

    def span(self) -> Span:
        """Return what there is to read."""
        ...

    def read(self, first: int, end: int) -> list[Record]:
        """Return the records from offset `first` to before `end`, in their order; offsets may have holes."""
        ...

    def append(self, value: bytes) -> int:
        """Write a record that survives whatever the log survives, and return its offset.

        An error leaves open whether it was written.
        """
        ...

    def close(self) -> None:
        """Let go of connections."""
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
        """Nothing is held."""
