"""Good events to compare with bad ones of a group, remembered for a minute.

Pages are polled, and a good event costs a read of the registry and of Kafka.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

_SECONDS: Final = 60.0
_MAX: Final = 200
#: A group, and the patterns of the event names that the caller sees.
Key = tuple[int, tuple[str, ...] | None]


class Remembered(NamedTuple):
    """The result of a read; `event` is None if no event of the type is good."""

    at: float
    event: Mapping[str, Any] | None


class GoodEvents:
    """Remembers the last good events, for many threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._of: dict[Key, Remembered] = {}

    def find(self, key: Key) -> Remembered | None:
        """Return the events of the last read, or None without a read within the last minute."""
        with self._lock:
            found = self._of.get(key)
        return found if found and self._clock() - found.at < _SECONDS else None

    def put(self, key: Key, event: Mapping[str, Any] | None) -> None:
        """Remember a good event; beyond the limit the oldest one is forgotten."""
        with self._lock:
            self._of.pop(key, None)
            self._of[key] = Remembered(self._clock(), event)
            if len(self._of) > _MAX:
                self._of.pop(next(iter(self._of)))
