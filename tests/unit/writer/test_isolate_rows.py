"""Which of many things is at fault, and when it is none of them."""

import pytest

from services.writer.model.bisect_failures import Failed, Odds, halve


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
def test_halving_finds_each_at_fault_and_does_the_others_once_in_their_order(bad: set[int]) -> None:
    done: list[int] = []
    failed = halve(100, _work(bad, done), (OutageError,))  # type: ignore[arg-type]
    assert failed.keys() == bad
    assert done == [n for n in range(100) if n not in bad]


def test_many_at_fault_are_not_searched_for_to_the_last() -> None:
    tried: list[int] = []

    def work(start: int, end: int) -> None:
        tried.append(end - start)
        raise BugError

    with pytest.raises(BugError):
        halve(10_000, work, (OutageError,))
    assert len(tried) < 500


def test_outage_during_halving_is_raised_and_blames_no_row() -> None:
    def work(start: int, end: int) -> None:
        raise BugError if end - start > 1 else OutageError

    with pytest.raises(OutageError):
        halve(8, work, (OutageError,))


def _of(topic: str, *places: int) -> list[Failed]:
    return [Failed(topic, place) for place in places]


def test_nothing_is_at_fault_where_nothing_passes() -> None:
    odds = Odds()
    assert not odds.are_at_fault(_of("a", 1), {})
    assert odds.are_at_fault(_of("a", 1), {"a": 1})


def test_few_are_at_fault_and_many_are_not() -> None:
    odds = Odds()
    odds.passed({"a": 1000})
    assert odds.are_at_fault(_of("a", *range(30)), {})
    assert odds.are_at_fault(_of("a", *range(30)), {}), "the same ones again, in a batch that is repeated"
    assert not odds.are_at_fault(_of("a", 30), {})


def test_retries_of_failing_events_add_no_passed_events_to_the_evidence() -> None:
    odds = Odds()
    assert not any(odds.are_at_fault(_of("a", *range(9)), {"a": 34}) for _ in range(100))
    assert odds.are_at_fault(_of("a", *range(8)), {"a": 34})


def test_a_topic_is_judged_by_its_own_events() -> None:
    odds = Odds()
    odds.passed({"well": 9_000})
    assert odds.are_at_fault(_of("sick", *range(5)), {})
    assert not odds.are_at_fault(_of("sick", 5), {}), "none of its own has passed"
    assert odds.are_at_fault(_of("well", *range(50)), {}), "another's are no matter of it"
    assert odds.are_at_fault(_of("fresh", 1), {})
    odds.passed({"sick": 10})
    assert odds.are_at_fault(_of("sick", 5), {})


def test_many_topics_that_fail_are_the_steps_fault() -> None:
    odds = Odds()
    found = [odds.are_at_fault(_of(f"topic-{n}", 1), {"well": 1}) for n in range(100)]
    assert sum(found) == 20


def test_events_that_passed_long_ago_are_forgotten_as_evidence() -> None:
    odds = Odds()
    odds.passed({"a": 10**9})
    found = [odds.are_at_fault(_of("a", n), {}) for n in range(1_000)]
    assert sum(found) == 70, "20 and one in a hundred of the half of 10,000 that is remembered"
    odds.passed({"a": 10_000})
    assert odds.are_at_fault(_of("a", 10_000), {}), "what failed is forgotten with the time"


def test_history_of_topics_is_bounded_for_invented_topic_names() -> None:
    odds = Odds()
    for n in range(30_000):
        odds.passed({f"made-up-{n}": 1})
    assert len(odds._passed) <= 10_000
