"""Sizes a batch by events: as many as recent batches settled in the target duration of a batch."""

from typing import Final

#: Minimum and first size.  Every batch has a fixed cost, which is higher on a busy machine: smaller sizes
#: would never catch up.  The first batch runs cold code, so it is not larger.
_MIN_EVENTS: Final = 20_000
_MAX_GROWTH: Final = 2.0


class BatchSizer:
    """The size of the next batch."""

    def __init__(self, max_events: int, seconds: float) -> None:
        """`max_events`: maximum events of a batch; `seconds`: its target duration."""
        self._max_events = max_events
        self._seconds = seconds
        self.events = min(_MIN_EVENTS, max_events)

    def record(self, events: int, seconds: float) -> None:
        """Update the size after a batch of `events` that took `seconds`."""
        if seconds <= 0:
            return
        fitting = events / seconds * self._seconds
        # A batch of the whole backlog does not predict larger batches, unless it took too long.
        if events < self.events and fitting >= events:
            return
        self.events = int(min(max(fitting, _MIN_EVENTS), self.events * _MAX_GROWTH, self._max_events))
