"""What the last rows of a table taught: whether the next ones are likely to be like them.

The quick ways into a table take all rows or none; where they have just failed, they would
be paid for twice.
"""

from collections import Counter
from collections.abc import Hashable
from typing import Final

#: So many times after the last one it is likely to be met again.
_CAUTIOUS: Final = 20


class RecentOutcomes:
    """Something of which there may be more in a place, by what this process met there."""

    def __init__(self) -> None:
        self._left: Counter[Hashable] = Counter()

    def are_likely(self, place: Hashable) -> bool:
        """Whether it was met in `place` not long ago."""
        return bool(self._left[place])

    def learn(self, place: Hashable, *, met: bool) -> None:
        """It was looked for in `place`, and (not) met."""
        self._left[place] = _CAUTIOUS if met else max(self._left[place] - 1, 0)
