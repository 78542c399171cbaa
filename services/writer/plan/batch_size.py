"""How many events a batch takes: as many as the last batches settled in the time it should take."""

from typing import Final

#: A batch has a price however small it is, higher on a busy machine: sizes that followed it
#: down would never catch up.  The first batch, which meets cold code, is no larger either.
_LEAST_EVENTS: Final = 20_000
_MOST_GROWTH: Final = 2.0


class BatchSizer:
    """The size of the next batch."""

    def __init__(self, most_events: int, seconds: float) -> None:
        """At most `most_events`; a batch should take about `seconds`."""
        self._most = most_events
        self._seconds = seconds
        self.events = min(_LEAST_EVENTS, most_events)

    def took(self, events: int, seconds: float) -> None:
        """A batch of `events` took `seconds`."""
        if seconds <= 0:
            return
        fitting = events / seconds * self._seconds
        # A batch that took all there was says nothing of larger ones, unless it took too long.
        if events < self.events and fitting >= events:
            return
        self.events = int(min(max(fitting, _LEAST_EVENTS), self.events * _MOST_GROWTH, self._most))
