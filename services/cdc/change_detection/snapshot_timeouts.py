"""Requested snapshots that have failed: the connector warns, continues with the log and sends no event.

A connector does not advance in the log during a snapshot.  A snapshot has failed if the connector has
advanced since, and all of the topic's records have landed without the last row.  Several snapshots run one
after the other, and the connector advances between two: when one lands, the waits of the others restart.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final

#: Seconds until a signal has certainly been read, and until records before it have landed. The wait doubles
#: with each failure, because the same failure is likely to repeat.
_SECONDS: Final = 10.0
_MAX_SECONDS: Final = 600.0


@dataclass(slots=True)
class _Wait:
    since: float
    #: The end of the source's log when the wait was over.
    log_end: int | None = None
    #: The end of the table's topic when the connector had passed `log_end`, and the time of that.
    topic_end: int | None = None
    passed: float = 0.0


class SnapshotTimeouts:
    """The waits for pending snapshots, by table and by the offset where they begin."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._waits: dict[tuple[str, int], _Wait] = {}
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
        """Return whether a snapshot has failed and must be requested again.

        `log_end`, `confirmed`: the end of the source's log, and its position that Kafka has.
        `landed`: the offset up to which the table's topic was searched for the last row.
        """
        asked = self._waits.setdefault(at, _Wait(self._clock()))
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
        del self._waits[at]
        self._failed[at[0]] += 1
        return True

    def is_done(self, at: tuple[str, int]) -> None:
        """Forget a snapshot that has landed, and restart the waits of the others."""
        self._waits.pop(at, None)
        del self._failed[at[0]]
        self._waits = {other: _Wait(self._clock()) for other in self._waits}
