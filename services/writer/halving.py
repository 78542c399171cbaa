"""Finds by halving which of many things makes a step raise, so that only those are left out.

An exception that nobody foresaw is one event's fault only if its neighbours pass: when many
fail, it is the step, and what is not the events' fault never parks them
(docs/adr, one record).
"""

from collections.abc import Callable, Hashable, Iterable
from itertools import islice
from typing import Final

#: So many may fail of few; of many, one in a hundred.
_LEAST: Final = 5
_ONE_IN: Final = 100
#: More than so many that passed say nothing more; with as many, the older half that failed is forgotten.
_WINDOW: Final = 10_000


class Odds:
    """What has passed a step in this process of late, and what has not."""

    def __init__(self) -> None:
        self._passed = 0
        self._since = 0
        self._failed: dict[Hashable, None] = {}

    def passed(self, events: int) -> None:
        """So many more have passed."""
        self._passed = min(self._passed + events, _WINDOW)
        self._since += events
        if self._since >= _WINDOW:
            self._since = 0
            self._failed = dict.fromkeys(islice(self._failed, (len(self._failed) + 1) // 2, None))

    def are_at_fault(self, failed: Iterable[Hashable], passed: int) -> bool:
        """Whether those that `failed` (their places) are at fault, and not the step."""
        together = self._failed | dict.fromkeys(failed)
        seen = min(self._passed + passed, _WINDOW)
        if not seen or len(together) > _LEAST + seen // _ONE_IN:
            return False  # nothing is kept of it: what is tried again would count again
        self._failed = together
        self.passed(passed)
        return True


def halve(
    things: int, work: Callable[[int, int], None], passes_on: tuple[type[BaseException], ...]
) -> dict[int, Exception]:
    """Do `work` for so many things, from a place to a place, in smaller pieces where it raises.

    Returns the places of those at which it raises alone.  Raises what is of `passes_on`, and
    the exception itself where it is too many's to be theirs.
    """
    failed: dict[int, Exception] = {}

    def do(start: int, end: int) -> None:
        try:
            work(start, end)
        except passes_on:
            raise
        except Exception as e:
            if end - start > 1:
                middle = (start + end) // 2
                do(start, middle)
                do(middle, end)
                return
            failed[start] = e
            if len(failed) > _LEAST + things // _ONE_IN:
                raise

    do(0, things)
    return failed
