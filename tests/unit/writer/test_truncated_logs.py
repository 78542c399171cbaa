"""Truncated logs are detected by comparing the leaders' epochs with the settled offsets."""

import asyncio
from collections.abc import Mapping

import pytest

from services.writer.model.next_offsets import Position
from services.writer.partitions.log_cuts import LogCuts
from services.writer.partitions.plan_log import PlanLog
from shared.kafka_read.leaders import StableOffset
from shared.kafka_read.offsets import Partition

P = Partition("events.order_placed", 0)
LIFE = ("a-topic", 0)


class _Log:
    """A partition whose leaders began where `begins` says (epoch to offset), up to `end`."""

    def __init__(self, begins: Mapping[int, int], end: int) -> None:
        self.begins = dict(begins)
        self.end = end
        self.answers = True
        self.asked = 0

    @property
    def last_stable(self) -> StableOffset:
        return StableOffset(self.end, max(self.begins))

    async def reached(self, epochs: Mapping[Partition, int]) -> dict[Partition, int]:
        self.asked += 1
        if not self.answers:
            return {}
        return {p: self._reached(epoch) for p, epoch in epochs.items()}

    def _reached(self, epoch: int) -> int:
        if epoch > max(self.begins):
            return -1
        return min((at for e, at in self.begins.items() if e > epoch), default=self.end)


class _Scene:
    def __init__(self, log: _Log, stands_at: int, furthest: int = 0) -> None:
        self.log = log
        self.plan_log = PlanLog()
        self.position = Position(LIFE[0], stands_at)
        self.furthest = max(stands_at, furthest)
        self.cuts = LogCuts(log, self.plan_log, lambda _p, position: max(position.next_offset, self.furthest))

    def look(self) -> dict[Partition, int]:
        """Return the offset of the cut, if any; verified epochs are stored, as by the view."""
        self.last_stable = {P: self.log.last_stable}
        cut = asyncio.run(self.cuts.find_cuts({P: self.position}, self.last_stable))
        for key, value in self.plan_log.leader_entries(
            self.cuts.leader_epochs({P: self.position}, self.last_stable)
        ):
            self.plan_log.apply(key, value)
        return cut


def test_under_the_same_leader_nothing_is_asked_again() -> None:
    scene = _Scene(_Log({3: 0}, 10), 10)
    assert [scene.look() for _ in range(3)] == [{}, {}, {}]
    assert (scene.log.asked, scene.plan_log.leaders) == (1, {LIFE: 3})


def test_a_leader_that_began_at_the_settled_end_or_above_is_followed() -> None:
    scene = _Scene(_Log({3: 0}, 10), 10)
    scene.look()
    scene.log.begins[5] = 10
    assert scene.look() == {}
    assert scene.plan_log.leaders == {LIFE: 5}


def test_a_leader_that_began_below_it_has_a_cut_log_however_far_it_went() -> None:
    scene = _Scene(_Log({3: 0}, 10), 10)
    scene.look()
    scene.log.begins[5], scene.log.end = 6, 20
    assert scene.look() == {P: 6}
    assert scene.plan_log.leaders == {LIFE: 3}  # nothing of it counts


def test_the_epoch_is_kept_for_the_next_writer() -> None:
    scene = _Scene(_Log({3: 0}, 10), 10)
    scene.look()
    successor = _Scene(_Log({3: 0, 5: 6}, 20), 10)
    successor.plan_log = scene.plan_log
    successor.cuts = LogCuts(successor.log, scene.plan_log, lambda _p, position: position.next_offset)
    assert successor.look() == {P: 6}


def test_an_end_below_what_is_settled_needs_no_epoch() -> None:
    assert _Scene(_Log({3: 0}, 6), 10).look() == {P: 6}


def test_ledger_offset_reveals_the_cut_when_the_group_lost_its_offset() -> None:
    assert _Scene(_Log({3: 0}, 6), 0, furthest=10).look() == {P: 6}


def test_a_ledger_that_comes_late_is_compared_too() -> None:
    scene = _Scene(_Log({3: 0}, 6), 6)
    assert scene.look() == {}
    scene.furthest = 10
    scene.cuts.recheck_all()
    assert scene.look() == {P: 6}


@pytest.mark.parametrize(("end", "goes_on"), [(10, 10), (14, 10), (6, 6)])
def test_an_epoch_that_no_leader_knows_halts_where_the_writer_stands(end: int, goes_on: int) -> None:
    """Lower epochs, or a foreign epoch: settled records do not land again."""
    scene = _Scene(_Log({7: 0}, 10), 10)
    scene.look()
    scene.log.begins, scene.log.end = {2: 0}, end
    assert scene.look() == {P: goes_on}
    why = scene.cuts.reason(P, scene.position, goes_on)
    assert "no leader epoch as late as 7" in why
    assert f"continues at {goes_on}" in why


def test_plan_above_the_settled_offset_does_not_move_the_halt_of_an_unknown_epoch() -> None:
    scene = _Scene(_Log({7: 0}, 10), 10, furthest=14)
    scene.look()
    scene.log.begins = {2: 0}
    assert scene.look() == {P: 10}


def test_an_epoch_that_is_known_again_tells_the_cut_again() -> None:
    scene = _Scene(_Log({7: 0}, 10), 10)
    scene.look()
    scene.log.begins = {2: 0}
    scene.look()
    scene.log.begins, scene.log.end = {7: 0, 8: 6}, 20
    assert scene.look() == {P: 6}
    assert "cut at 6" in scene.cuts.reason(P, scene.position, 6)


def test_transactions_that_hold_up_the_end_are_no_cut() -> None:
    scene = _Scene(_Log({3: 0}, 10), 10)
    scene.look()
    scene.last_stable = {P: StableOffset(8, 3)}
    assert asyncio.run(scene.cuts.find_cuts({P: scene.position}, scene.last_stable)) == {}


def test_partition_whose_leader_does_not_answer_is_not_planned() -> None:
    scene = _Scene(_Log({3: 0}, 10), 10)
    scene.log.answers = False
    assert scene.look() == {}
    assert scene.last_stable == {}
    assert scene.plan_log.leaders == {}
