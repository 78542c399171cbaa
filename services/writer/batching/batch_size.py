"""How many events a batch takes: as many as the last ones settled in the time that one should take."""

from typing import Final

#: A batch costs time however small it is, more on a busy machine: sizes that followed it down
#: would never catch up.  The first batch, which runs cold code, is no larger either.
_MIN_EVENTS: Final = 20_000
_MAX_GROWTH: Final = 2.0


class BatchSizer:
    """The size of the next batch."""

    def __init__(self, max_events: int, seconds: float) -> None:
        """`max_events` of a batch, which should take about `seconds`."""
        self._max_events = max_events
        self._seconds = seconds
        self.events = min(_MIN_EVENTS, max_events)

    def record(self, events: int, seconds: float) -> None:
        """Learn from a batch of `events` that took `seconds`."""
        if seconds <= 0:
            return
        fitting = events / seconds * self._seconds
        # A batch of the whole backlog tells nothing about larger ones, unless it took too long.
        if events < self.events and fitting >= events:
            return
        self.events = int(min(max(fitting, _MIN_EVENTS), self.events * _MAX_GROWTH, self._max_events))
