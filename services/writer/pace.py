"""How many events a batch takes: as many as the last batches settled in the time it should take."""

from typing import Final

#: What a batch costs however small it is makes smaller ones not quicker.
_LEAST_EVENTS: Final = 1_000
#: The first batch meets cold code: a large one would keep its events waiting for seconds.
_FIRST_EVENTS: Final = 20_000
_MOST_GROWTH: Final = 2.0


class Pace:
    """The size of the next batch."""

    def __init__(self, most_events: int, seconds: float) -> None:
        """At most `most_events`; a batch should take about `seconds`."""
        self._most = most_events
        self._seconds = seconds
        self.events = min(_FIRST_EVENTS, most_events)

    def took(self, events: int, seconds: float) -> None:
        """A batch of `events` took `seconds`."""
        if seconds <= 0:
            return
        fitting = events / seconds * self._seconds
        # A batch that took all there was says nothing of larger ones, unless it took too long.
        if events < self.events and fitting >= events:
            return
        self.events = int(min(max(fitting, _LEAST_EVENTS), self.events * _MOST_GROWTH, self._most))
        self.events = max(self.events, 1)
