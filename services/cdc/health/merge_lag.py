"""Measures how long landed changes have waited for the merger."""

from collections.abc import Mapping
from time import monotonic


class Unmerged:
    """Tracks from poll to poll which tables are behind, by landing table and offset."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[int, float]] = {}

    def seconds(self, behind: Mapping[str, int]) -> float:
        """Return the seconds since the oldest of them moved; 0 when none is behind.

        `behind`: the next offset of each table that has changes to merge.
        """
        now = monotonic()
        since = self._since
        self._since = {
            table: since[table] if since.get(table, (None,))[0] == at else (at, now)
            for table, at in behind.items()
        }
        return max((now - first for _, first in self._since.values()), default=0.0)
