"""How fast rows may go into a database that has a limit: a token bucket of the driver's.

Only the driver plans, so its one bucket bounds all tasks of all workers.  It holds a
second's rows at most.  Partitions whose events go to a limited database share what its
bucket has; all others are planned as ever, so a slow database slows its own events alone.
"""

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from services.writer.model.offsets import Partition, share
from services.writer.plan.fair_share import MOST_READERS, FairShare
from services.writer.settle.work_order import TaskReport

Span = tuple[int, int]
_FORGET: Final = 0.9
_NONE: Final = 0.001


class RowRates:
    """The buckets of all databases that have a limit."""

    def __init__(self, limits: Mapping[str, float], clock: Callable[[], float] = time.monotonic) -> None:
        """`limits`: rows per second by database."""
        self._limits = dict(limits)
        self._clock = clock
        #: The loop plans and counts while a thread releases what waited.
        self._lock = threading.Lock()
        self._rows = dict(limits)
        self._at = dict.fromkeys(limits, clock())
        #: Rows of the database for each event of the partition, as its last ranges had them.
        self._ratio: dict[tuple[str, Partition], float] = {}

    def share(
        self, backlog: Mapping[Partition, Span], limit: int, landing: Collection[str], turns: FairShare
    ) -> dict[Partition, Span]:
        """At most `limit` offsets of `backlog`, and no more for the databases than they may take now.

        Those that a limit slows and the others take their turns apart: none waits for the slow
        ones.  What a partition brings is not known before its first range: one row for each event.
        """
        ratios = {
            (name, p): ratio
            for name in self._limits.keys() & set(landing)
            for p in backlog
            if (ratio := self._ratio.get((name, p), 1.0))
        }
        with self._lock:
            rooms = [int(self._room(name) / ratio) for (name, _), ratio in ratios.items()]
        slow = {p for _, p in ratios}
        room = max(min([limit, *rooms]), 0)
        found: dict[Partition, Span] = {}
        if slow and room:
            slowed = {p: s for p, s in backlog.items() if p in slow}
            # As many as there may be: what each of them brings is only known after its first range.
            found = share(turns.next(slowed, sys.maxsize, MOST_READERS // 2), room)
        left = limit - sum(end - start for start, end in found.values())
        others = {p: s for p, s in backlog.items() if p not in slow}
        return found | share(turns.next(others, left, MOST_READERS - len(found)), left)

    def count(self, lines: Iterable[TaskReport]) -> None:
        """Take what tasks report from the buckets, and learn what each partition brings."""
        read = {line.range_of: line.read for line in lines if not line.database}
        for line in lines:
            if line.database in self._limits and not line.failure:
                self.spend(line.database, line.rows)
                if events := read.get(line.range_of):
                    self._learn((line.database, line.range_of), line.rows / events)

    def _learn(self, key: tuple[str, Partition], ratio: float) -> None:
        """Believe more at once and less slowly: packets of one topic may go anywhere."""
        found = max(ratio, self._ratio.get(key, 0.0) * _FORGET)
        self._ratio[key] = found if found > _NONE else 0.0

    def most(self, database: str) -> int | None:
        """How many rows may go to `database` at once; None: it has no limit."""
        limit = self._limits.get(database)
        return None if limit is None else max(int(limit), 1)

    def due(self, database: str) -> float:
        """Seconds until what went to `database` is paid for."""
        if database not in self._limits:
            return 0.0
        with self._lock:
            return max(1 - self._room(database), 0.0) / self._limits[database]

    async def wait(self, database: str) -> None:
        """Wait until what went to `database` is paid for."""
        await asyncio.sleep(self.due(database))

    def spend(self, database: str, rows: int) -> None:
        """So many rows go to `database`."""
        if database in self._limits:
            with self._lock:
                self._rows[database] = self._room(database) - rows

    def _room(self, database: str) -> float:
        limit, now = self._limits[database], self._clock()
        self._rows[database] = min(self._rows[database] + (now - self._at[database]) * limit, max(limit, 1.0))
        self._at[database] = now
        return self._rows[database]
