"""What the client asks of a spool, and how it does without one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol


class Spooled(Protocol):
    """What the client asks of a spool; `append` and `adopt` are called one at a time."""

    @property
    def told(self) -> str:
        """How full it is."""

    def has_room(self, size: int) -> bool:
        """Whether an event of that size may come in."""

    def append(self, body: bytes) -> Any:
        """Keep an event, and return its ticket."""

    def adopt(self) -> Iterator[tuple[str, bytes, Any]]:
        """Id, bytes and ticket of the events in the next file that a process which is gone has left."""

    def wants_more(self) -> bool:
        """Whether everything adopted is settled, and there may be more."""

    def sync(self) -> None:
        """What was appended is on the disk."""

    def settle(self, tickets: list[Any]) -> None:
        """These need no keeping any more."""

    def forget(self) -> None:
        """After a fork: the files are the parent's."""

    def close(self) -> None:
        """Let others adopt what is left."""


class NoSpool:
    """Without a folder nothing is kept."""

    @property
    def told(self) -> str:
        """Nothing is kept."""
        return "there is no spool"

    def has_room(self, size: int) -> bool:  # noqa: ARG002
        """Always."""
        return True

    def append(self, body: bytes) -> None:
        """Nothing."""

    def adopt(self) -> Iterator[tuple[str, bytes, Any]]:
        """Nothing."""
        return iter(())

    def wants_more(self) -> bool:
        """Never."""
        return False

    def sync(self) -> None:
        """Nothing."""

    def settle(self, tickets: list[Any]) -> None:
        """Nothing."""

    def forget(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


def keeping(folder: str | Path | None, most: int) -> Spooled:
    """The spool in `folder`, or none.

    Raises:
        OSError: the folder cannot be made or read.
    """
    if folder is None:
        return NoSpool()
    from .spool import Spool  # noqa: PLC0415 - its locks are a Unix', and who has no folder needs none

    return Spool(Path(folder), most)
