"""A batch of a function ends at its time limit: a slow function does not occupy a slot for long."""

from collections.abc import Sequence

import pytest

from services.transform.function.results import Dropped, Failure, FunctionResult
from services.transform.lane.timed_function import MAX_DEATHS, TimedFunction
from shared.errors import TRANSFORM_CRASHED

EVENTS = [b"%d" % n for n in range(5_000)]


class Slow:
    """A function and its clock, which each event advances."""

    def __init__(self, seconds: float, deadly: Sequence[int] = ()) -> None:
        self._seconds = seconds
        self._deadly = deadly
        self.now = 100.0
        self.parts: list[int] = []

    def clock(self) -> float:
        return self.now

    def run(self, events: Sequence[bytes], *, max_deaths: int | None) -> list[FunctionResult]:
        assert max_deaths
        results: list[FunctionResult] = []
        for each in events:
            self.now += self._seconds
            results.append(Failure(error=TRANSFORM_CRASHED) if int(each) in self._deadly else Dropped())
            if sum(isinstance(result, Failure) for result in results) == max_deaths:
                break
        self.parts.append(len(events))
        return results

    def take_logs(self) -> tuple[list[object], int]:
        return [], 0

    def cpu_seconds(self) -> float:
        return self.now


@pytest.mark.parametrize(("seconds", "events"), [(0.03, 175), (0.45, 12), (30.0, 10)])
def test_a_slow_function_ends_a_batch_early(seconds: float, events: int) -> None:
    slow = Slow(seconds)
    assert len(TimedFunction(slow, slow.clock).run(EVENTS, slow.now + 5)) == events


def test_the_next_batch_of_a_slow_function_begins_with_few_events() -> None:
    slow = Slow(0.5)
    timed = TimedFunction(slow, slow.clock)
    timed.run(EVENTS, slow.now + 5)
    assert len(timed.run(EVENTS, slow.now + 5)) == 10
    assert slow.parts == [10, 2, 2, 2, 2, 2]


def test_a_fast_function_gets_all_events_at_once() -> None:
    fast = Slow(0.000_01)
    timed = TimedFunction(fast, fast.clock)
    for _ in range(2):
        assert len(timed.run(EVENTS, fast.now + 5)) == len(EVENTS)
    assert fast.parts == [10, 4_990, 5_000]


def test_deaths_of_all_parts_count() -> None:
    deadly = range(8, 8 + MAX_DEATHS)
    slow = Slow(0.000_01, deadly)
    assert len(TimedFunction(slow, slow.clock).run(EVENTS, slow.now + 5)) == deadly.stop
