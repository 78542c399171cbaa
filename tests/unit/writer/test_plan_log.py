"""Plans that the writer records in the topic `onramp.settled`."""

from collections.abc import Iterator

import pytest

from services.writer.model.next_offsets import Position
from services.writer.model.routes import Routes
from services.writer.partitions.plan_log import PlanLog
from shared.kafka_read.offsets import Partition, Range

P, BESIDE = Partition("events.order_placed", 0), Partition("events.order_placed", 1)
TOPIC = "a-topic"
NOW, BEFORE = Routes("main"), Routes("other")


def _plan(plan_log: PlanLog, epoch: int, routes: Routes, *ranges: Range) -> None:
    for key, value in plan_log.plan_entries(epoch, ranges, routes):
        plan_log.apply(key, value)


def test_the_newest_writers_plan_of_a_life_comes_first_with_its_routes() -> None:
    plan_log = PlanLog()
    _plan(plan_log, 7, NOW, Range(TOPIC, P, 4, 9), Range(TOPIC, BESIDE, 0, 1))
    _plan(plan_log, 3, BEFORE, Range(TOPIC, P, 0, 5), Range("another life", P, 0, 2))
    assert plan_log.planned_ranges(P, TOPIC) == [
        (Range(TOPIC, P, 4, 9), NOW),
        (Range(TOPIC, P, 0, 5), BEFORE),
    ]
    assert plan_log.planned_ranges(BESIDE, TOPIC) == [(Range(TOPIC, BESIDE, 0, 1), NOW)]
    assert plan_log.planned_ranges(BESIDE, "another life") == []


def test_a_writers_last_plan_replaces_its_earlier_ones() -> None:
    plan_log = PlanLog()
    _plan(plan_log, 3, NOW, Range(TOPIC, P, 0, 5), Range(TOPIC, BESIDE, 0, 1))
    _plan(plan_log, 3, NOW, Range(TOPIC, P, 5, 6))
    assert plan_log.planned_ranges(P, TOPIC) == [(Range(TOPIC, P, 5, 6), NOW)]
    assert plan_log.planned_ranges(BESIDE, TOPIC) == []


def _planned(process: str, epoch: int, *ranges: Range) -> list[tuple[str, bytes]]:
    return PlanLog(process=process).plan_entries(epoch, ranges, NOW)


def _crashed(*plans: list[tuple[str, bytes]], at: int = 4) -> list[Range]:
    plan_log = PlanLog(process="me")
    for key, value in (entry for plan in plans for entry in plan):
        plan_log.apply(key, value)
    return [r for r, _ in plan_log.crashed_ranges(P, Position(TOPIC, at))]


def test_a_process_crashed_in_what_it_planned_last_and_did_not_settle() -> None:
    whole, rest, beside = Range(TOPIC, P, 0, 9), Range(TOPIC, P, 4, 9), Range(TOPIC, BESIDE, 0, 1)
    assert _crashed(_planned("a", 1, whole, beside), _planned("b", 2, rest)) == [rest, whole]
    assert _crashed(_planned("a", 1, whole), at=9) == []  # it is settled
    assert _crashed(_planned("a", 1, Range(TOPIC, P, 5, 9))) == []
    assert _crashed(_planned("a", 1, Range("another life", P, 0, 9))) == []


def test_a_process_that_went_on_did_not_crash_in_what_it_left() -> None:
    """An outage makes many sessions of one process, each with a plan that it does not finish."""
    whole, beside = Range(TOPIC, P, 0, 9), Range(TOPIC, BESIDE, 0, 1)
    assert _crashed(_planned("a", 1, whole), _planned("a", 2, whole), _planned("a", 3, whole)) == [whole]
    assert _crashed(_planned("a", 1, whole), _planned("a", 2, beside)) == []
    assert _crashed(_planned("me", 1, whole)) == []


def test_a_process_that_survived_a_failure_did_not_crash() -> None:
    plan_log, whole = PlanLog(process="a"), Range(TOPIC, P, 0, 9)
    _plan(plan_log, 1, NOW, whole)
    survived = plan_log.survived_entries(1)
    assert _crashed(_planned("a", 1, whole), survived) == []
    for key, value in survived:
        plan_log.apply(key, value)
    assert plan_log.planned_ranges(P, TOPIC) == [(whole, NOW)]


class _Ranges(tuple[Range, ...]):
    """Counts its iterations."""

    __slots__ = ()
    seen = 0

    def __iter__(self) -> Iterator[Range]:
        type(self).seen += 1
        return super().__iter__()


def test_planned_ranges_of_a_partition_are_found_without_scanning_every_plan() -> None:
    """A hundred plans of five hundred partitions must not block the loop for seconds."""
    plan_log = PlanLog()
    for epoch in range(100):
        _plan(
            plan_log,
            epoch,
            NOW,
            *(Range(TOPIC, Partition("events.t", n), epoch, epoch + 1) for n in range(5)),
        )
    for epoch, plan in plan_log.plans.items():
        object.__setattr__(plan, "ranges", _Ranges(plan.ranges))
        assert plan_log.plans[epoch] is plan
    _Ranges.seen = 0
    assert len(plan_log.planned_ranges(Partition("events.t", 3), TOPIC)) == 100
    assert _Ranges.seen == 0


@pytest.mark.parametrize("depth", [900, 5000, 200_000])
@pytest.mark.parametrize(
    "key", ["routes/x", "plan/7", "baseline/a/0", "totals/a/0/1", "leader/a/0", "halt/a/0"]
)
@pytest.mark.parametrize("closed", [True, False])
def test_a_deep_record_is_none_of_onramps(key: str, depth: int, *, closed: bool) -> None:
    deep = b"[" * depth + (b"]" * depth) * closed
    plan_log = PlanLog()
    for value in (deep, b'{"zz":' + deep + b"}"):
        assert not plan_log.read(key.encode(), value)
    assert not plan_log.plans


def test_a_registry_that_had_a_change_is_recorded_once() -> None:
    plan_log = PlanLog()
    for key, value in plan_log.registry_entries("onramp.registry"):
        assert plan_log.read(key.encode(), value)
    assert plan_log.registries == {"onramp.registry"}
    assert plan_log.registry_entries("onramp.registry") == []
    assert len(plan_log.registry_entries("onramp.registry.other")) == 1
