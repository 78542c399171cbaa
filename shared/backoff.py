"""The retry backoff of the gateway and the writer."""

import random
from math import inf
from time import monotonic
from typing import Final

_SECONDS: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
_JITTER: Final = 0.2
#: No pause is longer.
MAX_SECONDS: Final = _SECONDS[-1] * (1 + _JITTER)


class Backoff:
    """Counts consecutive failures, and is due again after a pause that grows with them."""

    def __init__(self, max_seconds: float = _SECONDS[-1]) -> None:
        self._max_seconds = max_seconds
        self._failures = 0
        self._due = -inf

    def is_due(self) -> bool:
        """Return whether the pause is over."""
        return monotonic() >= self._due

    def fail(self) -> float:
        """Count a failure; return the seconds until it is due: 0.2 to `max_seconds`, with 20 % jitter."""
        seconds = min(_SECONDS[min(self._failures, len(_SECONDS) - 1)], self._max_seconds)
        seconds *= random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311
        self._failures += 1
        self.pause(seconds)
        return seconds

    def pause(self, seconds: float) -> None:
        """Be due in `seconds`, independent of earlier failures."""
        self._due = monotonic() + seconds

    def succeed(self) -> None:
        """Be due now, and begin with the shortest pause again."""
        self._failures, self._due = 0, -inf
