"""Remembers what recently occurred in a table, and is therefore probable in its next rows.

The fast methods of writing to a table write all rows or none.  If such a method has just failed, another
attempt would double the cost of the batch.
"""

from collections import Counter
from collections.abc import Hashable
from typing import Final

#: Updates without an occurrence after which a table is forgotten.
_UPDATES: Final = 20


class RecentKeys:
    """Keys (tables) with an occurrence in this process within the last updates; in memory only."""

    def __init__(self) -> None:
        self._left: Counter[Hashable] = Counter()

    def contains(self, key: Hashable) -> bool:
        """Return whether `key` had an occurrence within its last `_UPDATES` updates."""
        return bool(self._left[key])

    def update(self, key: Hashable, *, occurred: bool) -> None:
        """Record one check of `key`, and whether it found an occurrence."""
        self._left[key] = _UPDATES if occurred else max(self._left[key] - 1, 0)
