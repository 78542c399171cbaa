"""The port to the spool, and its null version."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol


class SpoolPort(Protocol):
    """The port to a spool; calls of `append` and `adopt` do not overlap."""

    @property
    def usage(self) -> str:
        """Return the usage as text."""

    def has_room(self, size: int) -> bool:
        """Return whether there is room for an event of `size` bytes."""

    def append(self, body: bytes) -> Any:
        """Store an event; return its ticket."""

    def adopt(self) -> Iterator[tuple[str, bytes, Any]]:
        """Yield id, bytes and ticket of the events in the next file of an ended process."""

    def wants_more(self) -> bool:
        """Return whether all adopted events are settled, and there may be another file."""

    def sync(self) -> None:
        """Flush appended events to the disk."""

    def settle(self, tickets: list[Any]) -> None:
        """Remove settled events."""

    def forget(self) -> None:
        """Close the files unchanged: after a fork they belong to the parent."""

    def close(self) -> None:
        """Close the files; other processes adopt the remaining events."""


class NoSpool:
    """The spool without a folder, which stores nothing."""

    @property
    def usage(self) -> str:
        """Return the text for a client without a spool."""
        return "there is no spool"

    def has_room(self, size: int) -> bool:  # noqa: ARG002
        """Return True."""
        return True

    def append(self, body: bytes) -> None:
        """Do nothing."""

    def adopt(self) -> Iterator[tuple[str, bytes, Any]]:
        """Yield nothing."""
        return iter(())

    def wants_more(self) -> bool:
        """Return False."""
        return False

    def sync(self) -> None:
        """Do nothing."""

    def settle(self, tickets: list[Any]) -> None:
        """Do nothing."""

    def forget(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def open_spool(folder: str | Path | None, max_bytes: int) -> SpoolPort:
    """Open the spool in `folder` with at most `max_bytes` per file; without a folder return `NoSpool`.

    Raises:
        OSError: the folder cannot be created or read.
    """
    if folder is None:
        return NoSpool()
    from .spool import Spool  # noqa: PLC0415 - its locks need Unix, a client without a spool does not

    return Spool(Path(folder), max_bytes)
