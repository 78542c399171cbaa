"""The rule that pauses a transform: too many parked events, or too many deaths of the function's process."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

#: Events of the window, of which more than half must not be parked.
WINDOW_EVENTS: Final = 1_000
#: Deaths of the function's process within a minute.
MAX_DEATHS: Final = 5
_MINUTE: Final = 60.0


class Counts(NamedTuple):
    """Events with an outcome."""

    events: int
    parked: int
    deaths: int


@dataclass(slots=True)
class PausePolicy:
    """The recent outcomes of one transform."""

    _recent: deque[Counts] = field(default_factory=deque)
    _deaths: deque[tuple[float, int]] = field(default_factory=deque)

    def add(self, counts: Counts, now: float) -> str | None:
        """Add new outcomes at time `now` (seconds); return the reason to pause, if there is one.

        The window has the newest outcomes that are at least `WINDOW_EVENTS` events together.
        """
        if counts.events:
            self._recent.append(counts)
        while sum(each.events for each in self._recent) - self._oldest >= WINDOW_EVENTS:
            self._recent.popleft()
        if counts.deaths:
            self._deaths.append((now, counts.deaths))
        while self._deaths and self._deaths[0][0] <= now - _MINUTE:
            self._deaths.popleft()
        return self._reason()

    @property
    def _oldest(self) -> int:
        return self._recent[0].events if self._recent else WINDOW_EVENTS

    def _reason(self) -> str | None:
        events = sum(each.events for each in self._recent)
        parked = sum(each.parked for each in self._recent)
        deaths = sum(count for _, count in self._deaths)
        if parked > max(events, WINDOW_EVENTS) / 2:
            return f"{parked} of the last {events} events were parked"
        if deaths >= MAX_DEATHS:
            return f"the function's process ended {deaths} times within a minute"
        return None

    def reset(self) -> None:
        """Forget the outcomes, after an operator has resumed the transform."""
        self._recent.clear()
        self._deaths.clear()
