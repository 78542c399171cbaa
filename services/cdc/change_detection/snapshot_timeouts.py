"""Snapshots that were asked for and have failed: the connector warns, goes on with the log and tells nobody.

While it takes one the connector stands still in the log.  So one that has gone on since, and all of whose
records have landed without the last row, does not take it any more.  Of several it takes one after the other,
and goes on for a moment between two: when one comes the others wait from the beginning.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final

#: Until a signal is taken for sure, and until one before it has landed; twice as long each time, for what
#: fails again would fail on.
_SECONDS: Final = 10.0
_MAX_SECONDS: Final = 600.0


@dataclass(slots=True)
class _Wait:
    since: float
    #: Where the source's log ended so long after the asking.
    log_end: int | None = None
    #: Where the table's topic ended when the connector was past that, and when it was.
    topic_end: int | None = None
    passed: float = 0.0


class SnapshotTimeouts:
    """What is known of the snapshots that are waited for, by table and by where in its topic they begin."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._asked: dict[tuple[str, int], _Wait] = {}
        self._failed: Counter[str] = Counter()

    def has_timed_out(
        self,
        at: tuple[str, int],
        *,
        log_end: int,
        confirmed: int,
        landed: int,
        topic_end: Callable[[], int],
    ) -> bool:
        """Whether a snapshot will not come any more, and is to be asked for again.

        `log_end`, `confirmed`: where the source's log ends, and up to where Kafka has it; `landed`: up to
        where the table's topic was searched for the last row.
        """
        asked = self._asked.setdefault(at, _Wait(self._clock()))
        wait = min(_SECONDS * 2 ** self._failed[at[0]], _MAX_SECONDS)
        if asked.log_end is None:
            if self._clock() >= asked.since + wait:
                asked.log_end = log_end
            return False
        if confirmed < asked.log_end:
            return False
        if asked.topic_end is None:
            asked.topic_end, asked.passed = topic_end(), self._clock()
        if landed < asked.topic_end or self._clock() < asked.passed + wait:
            return False
        del self._asked[at]
        self._failed[at[0]] += 1
        return True

    def is_done(self, at: tuple[str, int]) -> None:
        """Forget a snapshot that has come; the others' turn may only come now."""
        self._asked.pop(at, None)
        del self._failed[at[0]]
        self._asked = {other: _Wait(self._clock()) for other in self._asked}
