"""What a database said, and when: an answer is believed for a while, and asked again after it.

The age is looked at once for a table and transaction, never for a row.
"""

import time
from typing import Final, Generic, TypeVar

#: So long what is known of a table is believed: for that long its owner's changes may go unnoticed,
#: unless something is refused, which asks at once.
SECONDS: Final = 60.0
#: So long where a field is dropped by it: by then its column may be there.
DISCARD_SECONDS: Final = 2.0

K = TypeVar("K")
V = TypeVar("V")


def now() -> float:
    """Seconds; tests turn it."""
    return time.monotonic()


class AnswerCache(Generic[K, V]):
    """Answers by what they are about."""

    def __init__(self) -> None:
        self._known: dict[K, tuple[float, V]] = {}

    def get(self, about: K, within: float = SECONDS) -> V | None:
        """The answer, unless there is none or it is older than so many seconds."""
        found = self._known.get(about)
        return found[1] if found and now() - found[0] < within else None

    def last(self, about: K) -> V:
        """The last answer, however old."""
        return self._known[about][1]

    def put(self, about: K, answer: V) -> None:
        """The database said so now."""
        self._known[about] = (now(), answer)

    def forget(self, about: K) -> None:
        """It is not so any more."""
        self._known.pop(about, None)
