"""Decides when a repeated action is due: the writer's only timer between two batches."""

from math import inf
from time import monotonic


class Every:
    """A timer that is due `seconds` after each `restart`; a late restart causes no extra repetitions."""

    def __init__(self, seconds: float, *, at_once: bool = False) -> None:
        """`at_once`: due for the first time immediately, otherwise in `seconds`."""
        self._seconds = seconds
        self._due = -inf
        if not at_once:
            self.restart()

    def is_due(self) -> bool:
        """Return whether the timer is due; it remains due until `restart`."""
        return monotonic() >= self._due

    def restart(self) -> None:
        """Make the timer due in `seconds` from now."""
        self._due = monotonic() + self._seconds
