"""Finds, by bisection, the items that make a step raise, so that only those items are excluded.

An unexpected exception is the fault of one event only if its neighbours pass.  If many events fail, the
step is at fault, and no event is parked (docs/adr, one record).
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

#: Maximum failures of one topic (or table): a constant, plus one per `_ONE_IN` events that passed.
_MIN: Final = 5
_ONE_IN: Final = 10
#: Maximum failures of all topics together, in the same form.
_MIN_OF_ALL: Final = 20
_ONE_IN_OF_ALL: Final = 100
#: Events after which the counts are halved, so that recent events dominate.
_WINDOW: Final = 10_000


class Failed(NamedTuple):
    """An event that failed: its topic or table, and its identity there."""

    of: Hashable
    event: Hashable


class Odds:
    """Counts the events that recently passed or failed a step in this process.

    Each topic (each table, in PERSIST) is evaluated by its own events: a topic whose events all fail
    does not consume another topic's allowance of failures.
    """

    def __init__(self) -> None:
        self._passed: Counter[Hashable] = Counter()
        self._since = 0
        self._failed: dict[Failed, None] = {}

    def passed(self, events: Mapping[Any, int]) -> None:
        """Add events that passed, by their topic or table."""
        self._passed.update(events)
        self._since += sum(events.values())
        if self._since >= _WINDOW:
            self._since = 0
            self._failed = dict.fromkeys(islice(self._failed, (len(self._failed) + 1) // 2, None))
            self._passed = Counter({of: min(n, _WINDOW) // 2 for of, n in self._passed.items() if n > 1})

    def are_at_fault(self, failed: Collection[Failed], passed: Mapping[Any, int]) -> bool:
        """Return whether the `failed` events, not the step, are at fault; only then count both."""
        together = self._failed | dict.fromkeys(failed)
        totals = self._passed + Counter(passed)
        of_all = min(totals.total(), _WINDOW)
        if not of_all or len(together) > _MIN_OF_ALL + of_all // _ONE_IN_OF_ALL:
            return False  # not counted: the same events are retried, and would count twice
        known = Counter(f.of for f in together)
        if any(known[of] > _MIN + totals[of] // _ONE_IN for of in {f.of for f in failed}):
            return False
        self._failed = together
        self.passed(passed)
        return True


def halve(
    items: int, work: Callable[[int, int], None], passes_on: tuple[type[BaseException], ...]
) -> dict[int, Exception]:
    """Call `work(start, end)` for `items` items, and again for each half of a range for which it raises.

    Return the exceptions of single items, by index.  Raise exceptions of `passes_on` at once, and an
    item's exception if too many items fail for the fault to be theirs.
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
            if len(failed) > _MIN_OF_ALL + items // _ONE_IN_OF_ALL:
                raise

    do(0, items)
    return failed
