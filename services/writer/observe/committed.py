"""Combines the databases' totals with reports of later commits, so that counters are current.

Totals are read every few seconds: counters from totals alone would stand still and jump, and so would every
rate.  A total that is read while tasks land may contain events that the tasks report later.  So reports are
added only to totals that were read while no task landed: a counter may be late, but is never too high.
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
    """The start of a reading, as the number of times that tasks had started or stopped landing."""

    turns: int

    def is_quiet(self) -> bool:
        """Return whether no task was landing at the time."""
        return self.turns % 2 == 0


class Committed:
    """The events that each database has committed, as known to the driver."""

    def __init__(self) -> None:
        self._turns = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._reported: dict[str, Counter[Key]] = defaultdict(Counter)
        #: By database, the totals less the events reported until they were read.
        self._before: dict[str, dict[Key, int]] = {}

    @contextmanager
    def landing(self) -> Iterator[None]:
        """Mark a block in which tasks land, and in which their reports are added."""
        self._turns += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._turns += 1
            self._quiet.set()

    async def quiet(self, seconds: float) -> Moment:
        """Wait until no task lands, for `seconds` at most, and return the moment."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):  # wait_for may swallow its task's cancellation
                await self._quiet.wait()
        return self.moment()

    def moment(self) -> Moment:
        """Return the current moment."""
        return Moment(self._turns)

    def correct(self, database: str, totals: Mapping[Key, int], began: Moment) -> None:
        """Correct the counts by totals whose reading began at `began`."""
        if began.is_quiet() and began == self.moment():
            reported = self._reported[database]
            self._before[database] = {k: totals.get(k, 0) - reported[k] for k in {*totals, *reported}}

    def add(self, database: str, events: Mapping[Key, int]) -> dict[Key, int]:
        """Add reported events; return their new totals, or none before the first quiet reading."""
        reported = self._reported[database]
        reported.update(events)
        before = self._before.get(database)
        return {} if before is None else {key: before.get(key, 0) + reported[key] for key in events}
