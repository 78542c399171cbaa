"""The totals of the databases, and what was committed since they were read: counters that are true at once.

Totals are read every few seconds, so counters that showed them alone would stand still and jump, and so would
every rate.  A total that is read while tasks land may have some of what they report later.  So the reports
are added to totals that were read while nothing landed, and never to others: a counter may be late, and is
never too high.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

#: Topic, table and outcome.
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Moment:
    """When a reading began: how often tasks had begun or ended to land."""

    turns: int

    def is_quiet(self) -> bool:
        """Whether nothing was landing then."""
        return self.turns % 2 == 0


class Committed:
    """What each database has committed, as far as the driver knows."""

    def __init__(self) -> None:
        self._turns = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._reported: dict[str, Counter[Key]] = defaultdict(Counter)
        #: By database, totals less what was reported until then.
        self._before: dict[str, dict[Key, int]] = {}

    @contextmanager
    def landing(self) -> Iterator[None]:
        """Tasks land in this block, and their reports are added by its end."""
        self._turns += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._turns += 1
            self._quiet.set()

    async def quiet(self, seconds: float) -> Moment:
        """Wait until nothing lands, for `seconds` at most; returns when the reading of totals begins."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):  # wait_for may swallow that its task is cancelled
                await self._quiet.wait()
        return self.moment()

    def moment(self) -> Moment:
        """Return the moment that is now."""
        return Moment(self._turns)

    def correct(self, database: str, totals: Mapping[Key, int], began: Moment) -> None:
        """Take totals whose reading `began` then."""
        if began.is_quiet() and began == self.moment():
            reported = self._reported[database]
            self._before[database] = {k: totals.get(k, 0) - reported[k] for k in {*totals, *reported}}

    def add(self, database: str, events: Mapping[Key, int]) -> dict[Key, int]:
        """Add what was reported; returns the totals of it, none before the first quiet reading."""
        reported = self._reported[database]
        reported.update(events)
        before = self._before.get(database)
        return {} if before is None else {key: before.get(key, 0) + reported[key] for key in events}
