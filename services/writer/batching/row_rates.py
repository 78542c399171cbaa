"""Limits the rows per second into a database: a token bucket in the driver.

Only the driver plans, so one bucket per database bounds all tasks of all workers.  A bucket holds
at most the rows of one second.  Partitions whose events go to a limited database share its bucket.
All others are planned without a limit, so a slow database slows only its own events.
"""

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from services.writer.batching.fair_share import MAX_PARTITIONS, FairShare
from services.writer.settle.work_order import TaskReport
from shared.kafka_read.offsets import Partition, Range, share

Span = tuple[int, int]
_DECAY: Final = 0.9
_NEGLIGIBLE: Final = 0.001


class RateLimiter:
    """The token buckets of all databases that have a limit."""

    def __init__(self, limits: Mapping[str, float], clock: Callable[[], float] = time.monotonic) -> None:
        """`limits`: rows per second by database."""
        self._limits = dict(limits)
        self._clock = clock
        #: The loop plans and counts while a thread redelivers waiting events.
        self._lock = threading.Lock()
        self._rows = dict(limits)
        self._updated_at = dict.fromkeys(limits, clock())
        #: Rows in the database per event of the partition, estimated from its last ranges.
        self._rows_per_event: dict[tuple[str, Partition], float] = {}

    def share(
        self, backlog: Mapping[Partition, Span], limit: int, landing: Collection[str], fair_share: FairShare
    ) -> dict[Partition, Span]:
        """Return spans with at most `limit` offsets in total, within the rows that the databases accept now.

        Invariant: partitions with a limited database are scheduled separately from the others, so that no
        other partition waits for them.  Before a partition's first range, one row per event is assumed.
        """
        ratios = {
            (name, p): ratio
            for name in self._limits.keys() & set(landing)
            for p in backlog
            if (ratio := self._rows_per_event.get((name, p), 1.0))
        }
        with self._lock:
            budgets = [int(self._available(name) / ratio) for (name, _), ratio in ratios.items()]
        slow = {p for _, p in ratios}
        budget = max(min([limit, *budgets]), 0)
        slow_shares: dict[Partition, Span] = {}
        if slow and budget:
            slowed = {p: s for p, s in backlog.items() if p in slow}
            # As many partitions as allowed: a partition's rows per event are known after its first range.
            slow_shares = share(fair_share.next(slowed, sys.maxsize, MAX_PARTITIONS // 2), budget)
        left = limit - sum(end - start for start, end in slow_shares.values())
        fast = {p: s for p, s in backlog.items() if p not in slow}
        return slow_shares | share(fair_share.next(fast, left, MAX_PARTITIONS - len(slow_shares)), left)

    def overrun(self, ranges: Collection[Range]) -> frozenset[str]:
        """Return the databases whose full bucket holds fewer rows than expected from `ranges`.

        The plan of `ranges` did not count on these databases: they were unreachable, or the limit is new.
        """
        return frozenset(name for name in self._limits if self._rows_of(name, ranges) > self._capacity(name))

    def _rows_of(self, name: str, ranges: Iterable[Range]) -> int:
        """Return the expected rows of `ranges` for the database, rounded down."""
        return int(sum(len(r) * self._rows_per_event.get((name, r.partition), 1.0) for r in ranges))

    def _capacity(self, name: str) -> float:
        return max(self._limits[name], 1.0)

    def count(self, reports: Iterable[TaskReport]) -> None:
        """Take the reported rows out of the buckets, and update the rows per event of each partition."""
        read = {report.range_of: report.read for report in reports if not report.database}
        for report in reports:
            if report.database in self._limits and not report.failure:
                self.consume(report.database, report.rows)
                if events := read.get(report.range_of):
                    self._learn((report.database, report.range_of), report.rows / events)

    def _learn(self, key: tuple[str, Partition], ratio: float) -> None:
        """Raise the estimate at once and lower it slowly: packets of one topic may go anywhere."""
        learned = max(ratio, self._rows_per_event.get(key, 0.0) * _DECAY)
        self._rows_per_event[key] = learned if learned > _NEGLIGIBLE else 0.0

    def burst(self, database: str) -> int | None:
        """Return the maximum rows that may go to `database` at once; None without a limit."""
        limit = self._limits.get(database)
        return None if limit is None else max(int(limit), 1)

    def delay(self, database: str) -> float:
        """Return the seconds until the bucket of `database` holds a row again; 0 without a limit."""
        if database not in self._limits:
            return 0.0
        with self._lock:
            return max(1 - self._available(database), 0.0) / self._limits[database]

    async def wait(self, database: str) -> None:
        """Wait until the bucket of `database` holds a row again."""
        await asyncio.sleep(self.delay(database))

    def consume(self, database: str, rows: int) -> None:
        """Take `rows` out of the bucket of `database`, which may go below zero."""
        if database in self._limits:
            with self._lock:
                self._rows[database] = self._available(database) - rows

    def _available(self, database: str) -> float:
        limit, now = self._limits[database], self._clock()
        self._rows[database] = min(
            self._rows[database] + (now - self._updated_at[database]) * limit, self._capacity(database)
        )
        self._updated_at[database] = now
        return self._rows[database]
