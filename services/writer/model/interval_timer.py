"""When something that is done again and again is due: the writer's one timer between two batches."""

from math import inf
from time import monotonic


class Every:
    """Due every `seconds`, counted from `restart`: what comes late moves what follows and repeats nothing."""

    def __init__(self, seconds: float, *, at_once: bool = False) -> None:
        """`at_once`: due for the first time now, else in `seconds`."""
        self._seconds = seconds
        self._due = -inf
        if not at_once:
            self.restart()

    def is_due(self) -> bool:
        """Return whether its time has come; it stays so until `restart`."""
        return monotonic() >= self._due

    def restart(self) -> None:
        """Be due in `seconds` from now."""
        self._due = monotonic() + self._seconds
