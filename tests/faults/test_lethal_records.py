"""A record that kills the process that works on it: the writers after it land its neighbours first."""

import pytest

from services.writer.batching import unfinished_ranges
from services.writer.model.next_offsets import Position
from services.writer.partitions import quarantine
from shared.kafka_read.offsets import Partition
from tests.fixtures.inline import Inline, KilledError
from tests.fixtures.two_topics import POISON, Bug, Two, ids
from tests.fixtures.writer import event, eventually, landed, produce

_EVENTS = 16
#: Kills together with the neighbours; then alone, of the whole and of each half that it is in.
_TOGETHER, _MAX = 3, 3 + 5


class Supervisor:
    """Starts a writer in place of each that is killed; an event of another topic is there before each."""

    def __init__(self, two: Two) -> None:
        self._two = two
        self._name = f"{two.scene.name}_beside"
        self.kills = 0
        self.writer = self._start()

    def _start(self) -> Inline:
        produce(self._two.scene.bootstrap, self._two.beside, [event(f"before-{self.kills}", self._name)])
        writer: Inline = self._two.scene.writer(topics=self._two.topics, wait=False)
        return writer

    def until_halted(self) -> str:
        """Why the topic's partition is."""
        while self._is_killed():
            self.kills += 1
            assert self.kills <= _MAX
            if self.kills > _TOGETHER + 1:  # what its first batches had beside it is tried before it
                assert self._beside() == self.kills
            self.writer = self._start()
        eventually(lambda: self._beside() == self.kills + 1)
        return self._two.why(self.writer)

    def _beside(self) -> int:
        return landed(self._two.scene.dsn, self._name)

    def _is_killed(self) -> bool:
        eventually(lambda: self._two.why(self.writer) or self.writer.exit is not None)
        assert self.writer.exit is None or isinstance(self.writer.exit, KilledError), self.writer.exit
        return self.writer.exit is not None


@pytest.mark.parametrize("before", [0, 7])
def test_a_record_that_kills_its_writers_is_halted_alone_and_all_before_it_lands(
    two: Two, bug: Bug, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unfinished_ranges, "_HALVING_PAUSE_SECONDS", 0.0)
    bug.kills("read")
    two.send(*ids(0, before), POISON, *ids(before, _EVENTS - 1 - before))
    supervisor = Supervisor(two)
    assert f"killed at offset {before}," in supervisor.until_halted()
    assert set(supervisor.writer.refused) == {Partition(two.topic, 0)}
    assert two.landed() == set(ids(0, before))
    two.the_other_lands()
    supervisor.writer.stop()
    bug.fix()
    monkeypatch.setattr(unfinished_ranges, "_RECORD_PAUSES_SECONDS", (0.0,))  # an hour later
    two.writer()
    eventually(lambda: two.landed() == set(two.sent))
    two.scene.audited()


def test_record_that_kills_the_writer_is_isolated_while_the_other_topic_lands(two: Two, bug: Bug) -> None:
    bug.kills("read")
    two.send(POISON, *ids(0, 7))
    supervisor = Supervisor(two)
    assert "bisecting the range" in supervisor.until_halted()
    assert supervisor.kills == _TOGETHER + 1
    two.the_other_lands()


def test_a_process_that_survives_its_failure_did_not_crash(
    two: Two, bug: Bug, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine, "_RETRY_SECONDS", (600.0,))
    bug.at("read")
    two.send(POISON)
    writer = two.writer()
    assert "fails at offset 0 " in eventually(lambda: two.why(writer))
    writer.stop()
    found = two.scene.plan_log()
    [*_, last] = [r for _, plan in sorted(found.plans.items()) for r in plan.ranges]
    assert last.partition == Partition(two.topic, 0)
    assert found.crashed_ranges(last.partition, Position(last.topic_id, 0)) == []
