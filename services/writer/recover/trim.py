"""Deletes from `onramp.system_errors` what has drained: what nobody will read again.

Kept is everything from the oldest undrained marker's first record on, of every database,
also of one that is out, halted or no longer configured; and whatever is young, because a
writer that was stopped for a while may still close what it had diverted.  The driver
calls it between two batches while nothing drains, so no record of its own is without a
marker, and nobody reads below.  Dying in the middle leaves some partitions for the next time.
"""

import time
from collections.abc import Mapping
from typing import Final, Protocol

from services.writer.recover.diverted_index import DivertedIndex
from shared import wire

#: How often a writer looks.  Nothing depends on it but disk.
_EVERY_SECONDS: Final = 600.0


class Log(Protocol):
    """What is asked of Kafka."""

    async def made_before(self, topic: str, when: float) -> dict[int, int]:
        """By partition, the offset below which every record is older than `when` (seconds since 1970)."""

    async def delete_below(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Delete the records below `offsets`, by partition."""


class RetentionCleanup:
    """Called between batches; does its work now and then."""

    def __init__(
        self, log: Log, index: DivertedIndex, keep_s: float, every_s: float = _EVERY_SECONDS
    ) -> None:
        self._log = log
        self._index = index
        self._keep = keep_s
        self._every = min(every_s, keep_s)
        self._due = time.monotonic() + self._every

    async def tick(self) -> None:
        """Trim, if it is time."""
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + self._every
            await self.trim()

    async def trim(self) -> None:
        """Delete what has drained and is old enough."""
        old = await self._log.made_before(wire.SYSTEM_ERRORS, time.time() - self._keep)
        needed = self._index.needed()
        await self._log.delete_below(
            wire.SYSTEM_ERRORS, {p: min(upto, needed.get(p, upto)) for p, upto in old.items()}
        )
