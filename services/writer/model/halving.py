"""Finds by halving which of many things makes a step raise, so that only those are left out.

An exception that nobody foresaw is one event's fault only if its neighbours pass: when many
fail, it is the step, and what is not the events' fault never parks them
(docs/adr, one record).
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

#: Of one topic (or one table) so many may fail where few pass, and where many do one in so many.
_LEAST: Final = 5
_ONE_IN: Final = 10
#: And of all together.
_LEAST_OF_ALL: Final = 20
_ONE_IN_OF_ALL: Final = 100
#: More than so many that passed say nothing more; with as many, the older half of all is forgotten.
_WINDOW: Final = 10_000


class Failed(NamedTuple):
    """An event that failed: of which topic or table, and where it is."""

    of: Hashable
    place: Hashable


class Odds:
    """What has passed a step in this process of late, and what has not.

    Each topic (each table, in PERSIST) is judged by its own events: one whose events all fail
    says nothing of another's, and takes nothing of what may fail there.
    """

    def __init__(self) -> None:
        self._passed: Counter[Hashable] = Counter()
        self._since = 0
        self._failed: dict[Failed, None] = {}

    def passed(self, events: Mapping[Any, int]) -> None:
        """So many more have passed, by their topic or table."""
        self._passed.update(events)
        self._since += sum(events.values())
        if self._since >= _WINDOW:
            self._since = 0
            self._failed = dict.fromkeys(islice(self._failed, (len(self._failed) + 1) // 2, None))
            self._passed = Counter({of: min(n, _WINDOW) // 2 for of, n in self._passed.items() if n > 1})

    def are_at_fault(self, failed: Collection[Failed], passed: Mapping[Any, int]) -> bool:
        """Whether those that `failed` are at fault, and not the step."""
        together = self._failed | dict.fromkeys(failed)
        seen = self._passed + Counter(passed)
        of_all = min(seen.total(), _WINDOW)
        if not of_all or len(together) > _LEAST_OF_ALL + of_all // _ONE_IN_OF_ALL:
            return False  # nothing is kept of it: what is tried again would count again
        known = Counter(f.of for f in together)
        if any(known[of] > _LEAST + seen[of] // _ONE_IN for of in {f.of for f in failed}):
            return False
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
            if len(failed) > _LEAST_OF_ALL + things // _ONE_IN_OF_ALL:
                raise

    do(0, things)
    return failed
