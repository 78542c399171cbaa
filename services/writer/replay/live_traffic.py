"""Detects live traffic, to which a replay gives way."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

#: Longer than the time between two batches of continuous traffic.
_AFTER_SECONDS: Final = 1.0


class LiveEvents:
    """Reports live traffic during a batch of live events and for a moment after it.  Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._is_under_way = False
        self._until = 0.0

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Mark live traffic while the block writes a batch of live events."""
        self._is_under_way = True
        try:
            yield
        finally:
            self._until = self._clock() + _AFTER_SECONDS
            self._is_under_way = False

    def is_arriving(self) -> bool:
        """Return whether live events are arriving now."""
        return self._is_under_way or self._clock() < self._until
