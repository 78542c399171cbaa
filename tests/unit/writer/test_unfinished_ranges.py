"""Unfinished ranges: which share a batch, which are planned alone, and which pause."""

import pytest

from services.writer.batching import unfinished_ranges
from services.writer.batching.byte_sizes import ByteSizes
from services.writer.batching.unfinished_ranges import UnfinishedRanges
from services.writer.model.next_offsets import Position
from services.writer.model.routes import Routes
from services.writer.partitions.plan_log import PlanLog
from shared.kafka_read.offsets import Partition, Range

TOPIC, NOW = "a-topic", Routes("main")
LETHAL, BESIDE, OTHER = (Partition("events.order_placed", n) for n in range(3))


def _range(p: Partition, start: int = 0, end: int = 8) -> Range:
    return Range(TOPIC, p, start, end)


class Driver:
    """The state of a new process after others were killed; it settles its plans."""

    def __init__(self, *plans: tuple[Range, ...]) -> None:
        plan_log = PlanLog(process="me")
        for epoch, ranges in enumerate(plans):
            for key, value in PlanLog(process=f"p{epoch}").plan_entries(epoch, ranges, NOW):
                plan_log.apply(key, value)
        self.ranges = UnfinishedRanges(plan_log, ByteSizes(1 << 40))
        partitions = {r.partition for ranges in plans for r in ranges}
        self.positions = {p: Position(TOPIC, 0) for p in sorted(partitions)}
        for p, position in self.positions.items():
            self.ranges.adopt(p, position)

    def next(self, *, others: bool = False) -> list[Range]:
        ends = dict.fromkeys(self.positions, 100)
        shared = self.ranges.plan(self.positions, ends)
        found = shared or self.ranges.isolated_plan(self.positions, ends, others=others)
        ranges = found[0] if found else []
        self.positions |= {r.partition: Position(TOPIC, r.end) for r in ranges}
        return ranges

    def pause(self, p: Partition) -> str:
        found = self.ranges.pause(p, self.positions[p])
        return found.reason if found else ""


BOTH = (_range(LETHAL), _range(BESIDE))
HALF = (_range(LETHAL, 0, 4), _range(BESIDE, 0, 4))


def test_ranges_unfinished_in_two_killed_processes_share_a_batch_at_half_size() -> None:
    driver = Driver(BOTH, BOTH)
    assert driver.next() == [*HALF]
    assert driver.pause(LETHAL) == ""


def test_range_unfinished_in_three_killed_processes_is_isolated_and_alternates_with_others() -> None:
    driver = Driver(BOTH, BOTH, HALF, (_range(OTHER),))
    assert driver.next() == [_range(OTHER)]
    assert driver.next(others=True) == []
    assert driver.next(others=True) == [_range(LETHAL, 0, 2)]
    assert driver.next(others=True) == []
    assert [driver.next() for _ in range(6)] == [
        [_range(LETHAL, 2, 4)],
        [_range(LETHAL, 4, 8)],
        [_range(BESIDE, 0, 2)],
        [_range(BESIDE, 2, 4)],
        [_range(BESIDE, 4, 8)],
        [],
    ]
    assert not driver.ranges.is_isolated(LETHAL, 8)


def test_range_that_killed_a_process_alone_comes_last_and_is_halved_after_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = Driver(BOTH, BOTH, HALF, (_range(LETHAL, 0, 4),))
    assert "one of the offsets 0 to 3" in driver.pause(LETHAL)
    assert driver.pause(BESIDE) == ""
    assert [driver.next() for _ in range(5)] == [
        [_range(BESIDE, 0, 2)],
        [_range(BESIDE, 2, 4)],
        [_range(BESIDE, 4, 8)],
        [_range(LETHAL, 0, 2)],
        [_range(LETHAL, 2, 3)],
    ]
    monkeypatch.setattr(unfinished_ranges, "_HALVING_PAUSE_SECONDS", 0.0)
    assert driver.pause(LETHAL) == ""


def test_the_record_that_kills_pauses_longer_the_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unfinished_ranges, "_HALVING_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(unfinished_ranges, "_RECORD_PAUSES_SECONDS", (0.0, 600.0))
    one = (_range(LETHAL, 0, 1),)
    assert Driver(BOTH, BOTH, HALF, one).pause(LETHAL) == ""
    assert "5 writers were killed at offset 0," in Driver(BOTH, BOTH, HALF, one, one).pause(LETHAL)
