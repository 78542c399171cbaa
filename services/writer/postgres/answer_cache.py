"""Caches what a database answered (about a table) for a while, after which it is asked again.

The age is checked once for each table and transaction, never for a row.
"""

import time
from typing import Final, Generic, TypeVar

#: How long the description of a table is used.  For that long its owner's changes may go unnoticed,
#: unless a row is rejected, which asks again at once.
SECONDS: Final = 60.0
#: How long it is used to drop a field: whoever sends the field may just have added its column.
DISCARD_SECONDS: Final = 2.0

K = TypeVar("K")
V = TypeVar("V")


def now() -> float:
    """Return monotonic seconds; tests replace it."""
    return time.monotonic()


class StaleAnswerError(Exception):
    """A cached answer is not true any more: what was done by it is rolled back and done again."""


class AnswerCache(Generic[K, V]):
    """Answers and their ages; in memory, without a bound: there are as many keys as tables."""

    def __init__(self) -> None:
        self._known: dict[K, tuple[float, V]] = {}

    def get(self, key: K, within: float = SECONDS) -> V | None:
        """Return the answer, or None when there is none or it is older than `within` seconds."""
        entry = self._known.get(key)
        return entry[1] if entry and now() - entry[0] < within else None

    def last(self, key: K) -> V:
        """Return the last answer, however old.  Raise `KeyError`."""
        return self._known[key][1]

    def put(self, key: K, answer: V) -> None:
        """Store an answer that the database has just given."""
        self._known[key] = (now(), answer)

    def forget(self, key: K) -> None:
        """Remove the answer: it is not true any more."""
        self._known.pop(key, None)
