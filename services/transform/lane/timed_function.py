"""Runs the function on a batch in parts, and ends the batch when its time is over.

A run occupies a slot, and the slots are few: a slow function on the 5,000 events of a batch would delay all
other transforms for minutes.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from services.transform.function.results import Failure, FunctionResult
from services.transform.function.runner import LogLine
from services.transform.lane.parked import DEATHS

#: Deaths of the function's process after which a batch is cut.
MAX_DEATHS: Final = 5
#: Events of the first part of a run, and about the seconds of each later one.
_FIRST_EVENTS: Final = 10
_PART_SECONDS: Final = 1.0
#: A measured time below it says nothing.
_MIN_SECONDS: Final = 0.001


class Function(Protocol):
    """The author's function on a batch of events; it blocks, and raises for infrastructure alone."""

    def run(self, events: Sequence[bytes], *, max_deaths: int | None) -> Sequence[FunctionResult]:
        """Return the result of each of `events`, in order; after `max_deaths` of the first ones alone."""

    def take_logs(self) -> tuple[Sequence[LogLine], int]:
        """Return the lines since the last call, and the number of suppressed ones."""

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of the function so far."""


class TimedFunction:
    """The function of one run, which measures the time of an event."""

    def __init__(self, function: Function, clock: Callable[[], float] = time.monotonic) -> None:
        self._function = function
        self._clock = clock
        self._part_events = _FIRST_EVENTS

    def run(self, events: Sequence[bytes], ends: float) -> list[FunctionResult]:
        """Return the results of `events`, in order, of at least one.

        After `ends` (of the clock), and after five deaths of its process, of the first ones alone.
        """
        results: list[FunctionResult] = []
        deaths = 0
        while len(results) < len(events):
            part = events[len(results) : len(results) + self._part_events]
            began = self._clock()
            new = self._function.run(part, max_deaths=MAX_DEATHS - deaths)
            now = self._clock()
            results += new
            deaths += sum(isinstance(each, Failure) and each.error in DEATHS for each in new)
            self._part_events = max(int(len(new) * _PART_SECONDS / max(now - began, _MIN_SECONDS)), 1)
            if len(new) < len(part) or deaths >= MAX_DEATHS or now >= ends:
                break
        return results
