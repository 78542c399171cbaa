"""Finds by halving which of many items make a step raise, so that only those are left out.

An unforeseen exception is one event's fault only if its neighbours pass: when many fail, the
step is at fault, and events are never parked for that (docs/adr, one record).
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

#: Most failures of one topic (or table): a constant, and one in so many that passed.
_MIN: Final = 5
_ONE_IN: Final = 10
#: The same of all together.
_MIN_OF_ALL: Final = 20
_ONE_IN_OF_ALL: Final = 100
#: Events after which the counts are halved, so that they are of recent events.
_WINDOW: Final = 10_000


class Failed(NamedTuple):
    """An event that failed: its topic or table, and what identifies it there."""

    of: Hashable
    event: Hashable


class Odds:
    """Counts what passed a step in this process of late, and what failed.

    Each topic (each table, in PERSIST) is judged by its own events: one whose events all fail
    does not use up what may fail of another.
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
        """Return whether the events that `failed` are at fault, and not the step; only then counts both."""
        together = self._failed | dict.fromkeys(failed)
        seen = self._passed + Counter(passed)
        of_all = min(seen.total(), _WINDOW)
        if not of_all or len(together) > _MIN_OF_ALL + of_all // _ONE_IN_OF_ALL:
            return False  # not counted: the same events are tried again, and would count again
        known = Counter(f.of for f in together)
        if any(known[of] > _MIN + seen[of] // _ONE_IN for of in {f.of for f in failed}):
            return False
        self._failed = together
        self.passed(passed)
        return True


def halve(
    items: int, work: Callable[[int, int], None], passes_on: tuple[type[BaseException], ...]
) -> dict[int, Exception]:
    """Call `work(start, end)` for `items` items, and again for each half of a range where it raises.

    Returns, by index, the exceptions of items for which it raises alone.  Raises exceptions of
    `passes_on` at once, and an item's exception when more fail than can be their own fault.
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
