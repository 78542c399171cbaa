"""Retention cleanup: deletes drained records, which no reader needs, from `onramp.system_errors`.

Invariant (the model's rules `trim_drained` and `trim_old`): the cleanup retains

- every record from the first record of the oldest undrained marker on, of every database, also of a
  database that is unreachable, halted or no longer configured;
- every young record, because a writer that was stopped for a while may still close its diverted ranges.

The driver calls it between two batches while nothing drains, so each of its own records has a marker, and
no reader is below.  After a crash in the middle the next run deletes the rest.
"""

import time
from collections.abc import Mapping
from typing import Final, Protocol

from services.writer.databases.diverted_index import DivertedIndex
from services.writer.model.interval_timer import Every
from shared import wire

#: Only disk space depends on it.
_EVERY_SECONDS: Final = 600.0


class Log(Protocol):
    """The requests to Kafka."""

    async def offsets_before(self, topic: str, when: float) -> dict[int, int]:
        """Return by partition the offset below which every record is older than `when` (Unix seconds)."""

    async def delete_below(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Delete the records below `offsets`, by partition."""


class RetentionCleanup:
    """Called between batches; works every ten minutes, or every `keep_s` if that is shorter."""

    def __init__(
        self, log: Log, index: DivertedIndex, keep_s: float, every_s: float = _EVERY_SECONDS
    ) -> None:
        self._log = log
        self._index = index
        self._keep = keep_s
        self._every = Every(min(every_s, keep_s))

    async def tick(self) -> None:
        """Trim when due."""
        if self._every.is_due():
            self._every.restart()
            await self.trim()

    async def trim(self) -> None:
        """Delete drained records that are older than `keep_s`.  Two requests for each leader."""
        old = await self._log.offsets_before(wire.SYSTEM_ERRORS, time.time() - self._keep)
        needed = self._index.lowest_needed()
        await self._log.delete_below(
            wire.SYSTEM_ERRORS, {p: min(upto, needed.get(p, upto)) for p, upto in old.items()}
        )
