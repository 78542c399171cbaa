"""A Kafka log that is cut below the settled offsets: the partition is halted and the reason is reported.

One broker loses the end of its log or gets an older one back; of three, one that was not in sync leads.
"""

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from typer.testing import CliRunner

from services.cli.app import app
from shared import wire
from shared.topics import OWN_TOPICS
from stack.kafka import Kafka
from tests.fixtures.cut_logs import cut, keep, restore
from tests.fixtures.fix_postgres import Database
from tests.fixtures.inline import Inline, start_inline
from tests.fixtures.running_part import started
from tests.fixtures.scenes import Scene
from tests.fixtures.second_database import Other
from tests.fixtures.writer import event, eventually, landed, make_topics, produce, rows

#: A broker that came back leads again after its session.
_PATIENCE = 120.0


class Broken:
    """A topic that a writer has settled up to 10, and another one; then its log is cut at 6."""

    def __init__(self, scene: Scene, kafka: Kafka, other: Other | None = None) -> None:
        self.scene = scene
        self.other = other
        self.kafka = kafka
        self.folder = kafka._data_dir
        self.beside = f"{scene.name}_beside"
        make_topics(scene.bootstrap, scene.topic, f"events.{self.beside}")
        self.writer = self.start()

    def start(self) -> Inline:
        others = [self.other] if self.other else []
        writer: Inline = self.scene.writer_into(*others, topics=rf"events\.{self.scene.name}.*")
        return writer

    def onramp(self, *arguments: str) -> Any:
        given = ["--kafka", self.scene.bootstrap, "--dsn", self.scene.dsn]
        return CliRunner().invoke(app, ["partitions", *arguments, *given])

    def accept(self) -> int:
        return int(self.onramp("resolve", f"{self.scene.topic}/0", "accept").exit_code)

    def produce(self, prefix: str, count: int) -> None:
        """One record a batch, so that a log can be cut between any two."""
        for n in range(count):
            produce(self.scene.bootstrap, self.scene.topic, [event(f"{prefix}-{n}", self.scene.name)])

    def settle(self, count: int) -> None:
        eventually(lambda: self.scene.landed() == count, _PATIENCE)
        eventually(lambda: self.scene.group() == {0: count}, _PATIENCE)

    def kill(self) -> None:
        self.kafka.kill()

    def come_back(self) -> None:
        self.kafka.start()
        self.kafka.wait_ready()

    def goes_back(self, at: int = 6) -> None:
        """Simulate a power failure: records that were not on disk are lost."""
        self.kill()
        cut(self.folder, self.scene.topic, at)
        self.come_back()

    def halted(self) -> str:
        return eventually(lambda: next(iter(self.writer.refused.values()), ""), _PATIENCE)

    def neighbour_goes_on(self) -> None:
        before = landed(self.scene.dsn, self.beside)
        produce(self.scene.bootstrap, f"events.{self.beside}", [event(f"b-{before}", self.beside)])
        eventually(lambda: landed(self.scene.dsn, self.beside) == before + 1, _PATIENCE)


@pytest.fixture
def broken(alone: Scene, breakable_kafka: Kafka) -> Broken:
    broken = Broken(alone, breakable_kafka)
    broken.produce("old", 10)
    broken.settle(10)
    return broken


def _forget_the_group(scene: Scene) -> None:
    admin = AdminClient({"bootstrap.servers": scene.bootstrap})
    for future in admin.delete_consumer_groups([wire.WRITER_GROUP]).values():
        future.result(20)


@pytest.mark.full
def test_a_log_that_ends_below_what_is_settled_halts_its_partition_and_no_other(broken: Broken) -> None:
    broken.writer.stop()
    broken.goes_back()
    broken.writer = broken.start()
    assert "cut at 6" in broken.halted()
    broken.neighbour_goes_on()
    assert broken.scene.landed() == 10


@pytest.mark.parametrize(
    "again",
    [pytest.param(3, id="short of it", marks=pytest.mark.full), pytest.param(8, id="and past it")],
)
def test_truncated_and_refilled_log_is_detected_by_its_leader_epoch(broken: Broken, again: int) -> None:
    broken.writer.stop()
    broken.goes_back()
    broken.produce("new", again)
    broken.writer = broken.start()
    assert "cut at 6" in broken.halted()
    broken.neighbour_goes_on()
    assert broken.scene.landed() == 10
    assert broken.scene.group() == {0: 10}


@pytest.mark.full
def test_the_same_under_a_writer_that_runs(broken: Broken) -> None:
    broken.goes_back()
    broken.produce("new", 8)
    assert "cut at 6" in broken.halted()
    broken.neighbour_goes_on()
    broken.writer.stop()
    broken.writer = broken.start()
    assert "cut at 6" in broken.halted()
    assert broken.scene.landed() == 10


def test_with_the_groups_offsets_lost_the_ledger_tells(broken: Broken) -> None:
    broken.neighbour_goes_on()  # the writer's last plan, which is of it, tells nothing of the other
    broken.writer.stop()
    assert broken.scene.topic not in broken.scene.last_planned()
    _forget_the_group(broken.scene)
    broken.goes_back()
    broken.produce("new", 8)
    broken.writer = broken.start()
    assert "cut at 6" in broken.halted()
    broken.neighbour_goes_on()
    assert broken.scene.landed() == 10


@pytest.mark.full
def test_a_log_that_is_what_was_settled_again_is_read_on_without_a_word(
    broken: Broken, tmp_path: Path
) -> None:
    broken.kill()
    keep(broken.folder, broken.scene.topic, tmp_path / "aside")
    cut(broken.folder, broken.scene.topic, 6)
    broken.come_back()
    assert "cut at 6" in broken.halted()
    broken.kill()
    restore(broken.folder, broken.scene.topic, tmp_path / "aside")
    broken.come_back()
    eventually(lambda: broken.writer.refused == {}, _PATIENCE)
    broken.produce("new", 2)
    broken.settle(12)


@pytest.mark.full
def test_a_broker_that_comes_back_whole_halts_nothing(broken: Broken) -> None:
    broken.kill()
    broken.come_back()
    broken.produce("new", 3)
    broken.settle(13)
    assert broken.writer.refused == {}


def test_a_person_lets_it_go_on_from_the_cut_and_what_is_there_lands(broken: Broken) -> None:
    topic = broken.scene.topic
    assert broken.accept() == 1  # it is not halted
    broken.goes_back()
    broken.produce("new", 8)
    broken.halted()
    eventually(lambda: re.search(rf"^{topic}/0 ", broken.onramp("list").output, re.MULTILINE))
    assert broken.accept() == 0
    eventually(lambda: broken.writer.refused == {}, _PATIENCE)
    eventually(lambda: broken.scene.landed() == 18, _PATIENCE)
    eventually(lambda: broken.scene.group() == {0: 14})
    assert broken.onramp("list").exit_code == 0
    broken.writer.stop()
    broken.writer = broken.start()
    broken.produce("newer", 2)
    eventually(lambda: broken.scene.landed() == 20, _PATIENCE)
    assert broken.writer.refused == {}
    assert broken.scene.totals() == {"landed": 20}
    report = broken.scene.audited()
    assert (report.unjudged, report.balanced) == (4, False)  # [6, 10) of the log that was
    broken.neighbour_goes_on()
    broken.goes_back(9)  # another halt: the word about the first says nothing of it
    assert "cut at 9" in broken.halted()
    broken.writer.stop()
    broken.writer = broken.start()
    assert "cut at 9" in broken.halted()


@pytest.mark.full
def test_waiting_events_from_before_a_truncation_land_along_with_accepted_events(
    alone: Scene, breakable_kafka: Kafka, other: Other
) -> None:
    broken = Broken(alone, breakable_kafka, other)
    eventually(lambda: set(broken.writer.states.values()) == {"landing"})
    broken.produce("old", 4)
    broken.settle(4)
    other.close()
    broken.produce("late", 6)
    broken.settle(10)
    broken.goes_back()
    broken.produce("new", 8)
    broken.halted()
    eventually(lambda: broken.accept() == 0)
    eventually(lambda: alone.landed() == 18, _PATIENCE)
    other.open()
    eventually(lambda: broken.writer.states[other.name] == "landing", _PATIENCE)
    broken.produce("newer", 2)
    eventually(lambda: alone.landed() == landed(other.dsn, alone.name) == 20, _PATIENCE)
    with_other = rows(other.dsn, f"SELECT count(*), count(DISTINCT _id) FROM events.{alone.name}")  # noqa: S608
    assert with_other == [(20, 20)]


@pytest.mark.full
def test_an_unclean_election_halts_what_was_settled_above_it(database: Database, tmp_path: Path) -> None:
    """Records that only the first broker had are settled, then the lagging broker becomes leader."""
    running: list[Inline] = []
    with started(Kafka(tmp_path / "kafka", brokers=3, heap_mb=384)) as cluster:
        scene = Scene(
            start_writer=partial(start_inline, running),
            bootstrap=cluster.bootstrap,
            dsn=database.dsn,
            gateway="",
            folder=tmp_path,
        )
        try:
            _play_unclean_election(scene, cluster)
        finally:
            for writer in reversed(running):
                writer.stop()


def _play_unclean_election(scene: Scene, cluster: Kafka) -> None:
    admin = AdminClient({"bootstrap.servers": scene.bootstrap})
    one = {"min.insync.replicas": "1"}
    unsafe = one | {"unclean.leader.election.enable": "true"}
    # Brokers 2 and 3 hold it, and all of them what is Onramp's, so that nothing else is lost.
    topics = [NewTopic(scene.topic, 1, replica_assignment=[[2, 3]], config=unsafe)]
    topics += [NewTopic(t.name, t.partitions, 3, config={**t.config, **one}) for t in OWN_TOPICS]
    for future in admin.create_topics(topics).values():
        future.result(30)
    writer: Inline = scene.writer()

    def send(prefix: str, count: int) -> None:
        produce(scene.bootstrap, scene.topic, [event(f"{prefix}-{n}", scene.name) for n in range(count)])

    def leader() -> int:
        return int(admin.list_topics(scene.topic, timeout=20).topics[scene.topic].partitions[0].leader)

    send("both", 6)
    eventually(lambda: scene.group() == {0: 6}, _PATIENCE)
    assert leader() == 2
    cluster.kill(2)  # broker 3, counted from 0
    eventually(lambda: _in_sync(admin, scene.topic) == [2], _PATIENCE)
    send("first", 4)
    eventually(lambda: scene.group() == {0: 10}, _PATIENCE)
    cluster.kill(1)
    cluster.children[2].start()
    eventually(lambda: leader() == 3, _PATIENCE)
    send("again", 8)
    assert "cut at 6" in eventually(lambda: next(iter(writer.refused.values()), ""), _PATIENCE)
    assert scene.landed() == 10


def _in_sync(admin: AdminClient, topic: str) -> list[int]:
    return list(admin.list_topics(topic, timeout=20).topics[topic].partitions[0].isrs)
