"""Caches a database's answers (about a table) for a limited time, after which it is queried again.

The age is checked once per table and transaction, never per row.
"""

import time
from typing import Final, Generic, TypeVar

#: Maximum age of a table's description.  For that long its owner's changes may go unnoticed, unless a row
#: is rejected, which causes a new query at once.
SECONDS: Final = 60.0
#: Maximum age of a description by which a field is dropped: its sender may just have added the column.
DISCARD_SECONDS: Final = 2.0

K = TypeVar("K")
V = TypeVar("V")


def now() -> float:
    """Return monotonic seconds; tests replace it."""
    return time.monotonic()


class StaleAnswerError(Exception):
    """A cached answer is stale; work that was based on it is rolled back and repeated."""


class AnswerCache(Generic[K, V]):
    """Answers and their ages; in memory, without a bound, because there are only as many keys as tables."""

    def __init__(self) -> None:
        self._known: dict[K, tuple[float, V]] = {}

    def get(self, key: K, within: float = SECONDS) -> V | None:
        """Return the answer, or None if there is none or it is older than `within` seconds."""
        entry = self._known.get(key)
        return entry[1] if entry and now() - entry[0] < within else None

    def last(self, key: K) -> V:
        """Return the last answer of any age.  Raise `KeyError`."""
        return self._known[key][1]

    def put(self, key: K, answer: V) -> None:
        """Store a new answer of the database."""
        self._known[key] = (now(), answer)

    def forget(self, key: K) -> None:
        """Remove an answer that is stale."""
        self._known.pop(key, None)
