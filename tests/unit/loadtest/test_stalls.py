"""A stall is a time in which rows are expected and none lands; a time without events is none."""

import numpy as np
import pytest

from loadtest import stalls
from loadtest.measure import Rows
from loadtest.run import WARM_UP
from loadtest.shapes import NAMES, RISING, named


def told(intended: list[float], accepted: list[float], seen: list[float]) -> dict[str, float]:
    found = stalls.longest_stall(Rows(np.array(intended), np.array(accepted), np.array(seen)), 0.0104)
    assert found is not None
    return found


def test_it_begins_with_the_row_before_it() -> None:
    found = told([10, 10, 11, 12], [10.5, 10.5, 11.5, 12.5], [13.0, 13.0, 15.5, 16.0])
    assert found == {"due_s": 3.0, "accepted_s": 2.5, "from_second": 0.0, "longest_between_looks_s": 0.01}
    # Rows land meanwhile: the longest is from one of them to the next, not a row's own wait.
    assert told([10, 10, 10], [10, 10, 10], [12, 14.5, 16])["due_s"] == 2.5


def test_a_time_in_which_nothing_was_due_does_not_count() -> None:
    found = told([10, 60], [10, 60], [10.2, 60.7])
    assert found["due_s"] == pytest.approx(0.7)
    assert found["from_second"] == 50


def test_row_visible_before_its_answer_has_an_accepted_wait_of_0() -> None:
    assert told([10, 10], [10.4, 10.4], [10.3, 10.3])["accepted_s"] == 0.0


def test_rows_that_were_never_seen_are_left_out() -> None:
    assert told([10, 11], [10, 11], [10.5, np.nan])["due_s"] == 0.5
    assert stalls.longest_stall(Rows(np.ones(1), np.ones(1), np.full(1, np.nan)), 0.0) is None
    assert stalls.longest_stall(None, 0.0) is None


def test_a_rising_load_rises_on_a_cold_stack_until_something_gives_way() -> None:
    rising = named(RISING, 90)
    rates = [step.rate for step in rising.steps]
    assert rates == sorted(rates)
    assert rates[0] == 100
    assert rates[-1] > 50_000
    assert rising.breaks
    assert [name for name in NAMES if named(name, 60).cold] == [RISING]
    assert not WARM_UP.cold
