"""Remembers what was seen in a table of late, and so is probable in its next rows.

The fast ways into a table take all rows or none; where one has just failed, trying it again
would cost the batch twice.
"""

from collections import Counter
from collections.abc import Hashable
from typing import Final

#: Updates without a sighting after which a table is forgotten.
_UPDATES: Final = 20


class RecentlySeen:
    """Keys (tables) where this process saw something within the last updates; in memory only."""

    def __init__(self) -> None:
        self._left: Counter[Hashable] = Counter()

    def contains(self, key: Hashable) -> bool:
        """Return whether it was seen at `key` within the last `_UPDATES` updates."""
        return bool(self._left[key])

    def update(self, key: Hashable, *, seen: bool) -> None:
        """Note that it was looked for at `key`, and whether it was seen."""
        self._left[key] = _UPDATES if seen else max(self._left[key] - 1, 0)
