"""Whether to try the quick way first: a plain COPY, which one clash undoes whole.

Right after a clash the next ones are likely, and each costs its rows twice.
"""

from collections import Counter
from collections.abc import Hashable
from typing import Final

#: After a clash a table's next attempts of this process are not made.
_CAUTIOUS: Final = 20


class Optimism:
    """What the last attempts of this process taught, by place."""

    def __init__(self) -> None:
        self._left: Counter[Hashable] = Counter()

    def for_(self, place: Hashable) -> bool:
        """Whether the quick way is worth an attempt in `place`."""
        return not self._left[place]

    def learn(self, place: Hashable, *, clashed: bool) -> None:
        """The long way was gone, and rows did (not) clash."""
        self._left[place] = _CAUTIOUS if clashed else max(self._left[place] - 1, 0)
