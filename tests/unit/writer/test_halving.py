"""Which of many things is at fault, and when it is none of them."""

import pytest

from services.writer.halving import Odds, halve


class BugError(Exception):
    pass


class OutageError(Exception):
    pass


def _work(bad: set[int], done: list[int]) -> "object":
    def work(start: int, end: int) -> None:
        if found := bad & set(range(start, end)):
            raise BugError(min(found))
        done.extend(range(start, end))

    return work


@pytest.mark.parametrize("bad", [set(), {0}, {99}, {3, 4, 50}])
def test_f46_halving_finds_each_at_fault_and_does_the_others_once_in_their_order(bad: set[int]) -> None:
    done: list[int] = []
    failed = halve(100, _work(bad, done), (OutageError,))  # type: ignore[arg-type]
    assert failed.keys() == bad
    assert done == [n for n in range(100) if n not in bad]


def test_f46_many_at_fault_are_not_searched_for_to_the_last() -> None:
    tried: list[int] = []

    def work(start: int, end: int) -> None:
        tried.append(end - start)
        raise BugError

    with pytest.raises(BugError):
        halve(10_000, work, (OutageError,))
    assert len(tried) < 500


def test_f46_an_outage_in_the_middle_of_it_is_nobodys_fault() -> None:
    def work(start: int, end: int) -> None:
        raise BugError if end - start > 1 else OutageError

    with pytest.raises(OutageError):
        halve(8, work, (OutageError,))


def test_f46_nothing_is_at_fault_where_nothing_passes() -> None:
    odds = Odds()
    assert not odds.are_at_fault(["a"], passed=0)
    assert odds.are_at_fault(["a"], passed=1)


def test_f46_few_are_at_fault_and_many_are_not() -> None:
    odds = Odds()
    odds.passed(1000)
    assert odds.are_at_fault(range(15), passed=0)
    assert odds.are_at_fault(range(15), passed=0), "the same ones again, in a batch that is repeated"
    assert not odds.are_at_fault([15, 16], passed=0)


def test_f46_what_is_tried_again_and_again_does_not_speak_for_itself() -> None:
    odds = Odds()
    assert not any(odds.are_at_fault(range(6), passed=34) for _ in range(100))
    assert odds.are_at_fault(range(5), passed=34)


def test_f46_what_passed_long_ago_speaks_for_nobody() -> None:
    odds = Odds()
    odds.passed(10**9)
    found = [odds.are_at_fault([n], passed=0) for n in range(1_000)]
    assert sum(found) == 105
    odds.passed(10_000)
    assert odds.are_at_fault(["later"], passed=0), "what failed is forgotten with the time"
