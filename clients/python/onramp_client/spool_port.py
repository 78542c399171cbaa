"""The port to the spool, and its version without a folder."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol


class SpoolPort(Protocol):
    """What the client needs of a spool; `append` and `adopt` are called one at a time."""

    @property
    def usage(self) -> str:
        """Return how full it is, as text."""

    def has_room(self, size: int) -> bool:
        """Return whether there is room for an event of `size` bytes."""

    def append(self, body: bytes) -> Any:
        """Keep an event; return its ticket."""

    def adopt(self) -> Iterator[tuple[str, bytes, Any]]:
        """Yield id, bytes and ticket of the events in the next file that an ended process left."""

    def wants_more(self) -> bool:
        """Return whether all adopted events are settled, and there may be another file."""

    def sync(self) -> None:
        """Flush to the disk what was appended."""

    def settle(self, tickets: list[Any]) -> None:
        """Remove these events: they are settled."""

    def forget(self) -> None:
        """Close the files without changing them: after a fork they are the parent's."""

    def close(self) -> None:
        """Leave what is left to other processes."""


class NoSpool:
    """The spool without a folder: it keeps nothing."""

    @property
    def usage(self) -> str:
        """Return that there is no spool."""
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
    """Open the spool in `folder`, whose file has at most `max_bytes`; without a folder return `NoSpool`.

    Raises:
        OSError: the folder cannot be made or read.
    """
    if folder is None:
        return NoSpool()
    from .spool import Spool  # noqa: PLC0415 - its locks need a Unix, the client without a folder does not

    return Spool(Path(folder), max_bytes)
