"""A lost broker of three: only partitions that it alone can lead wait."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from typer.testing import CliRunner

from services.cli.app import app
from services.ops.audit.run import Request, audit
from services.ops.findings import Report
from services.writer.kafka.cluster import Cluster
from shared import wire
from shared.kafka_security import Brokers
from shared.settings import KafkaSettings
from shared.topics import OWN_TOPICS, REGISTRY_TOPIC
from stack.kafka import Kafka
from tests.faults.conftest import StartInline
from tests.fixtures.fix_postgres import Database
from tests.fixtures.inline import Inline
from tests.fixtures.running_part import started
from tests.fixtures.scenes import Scene
from tests.fixtures.writer import delete_records, event, eventually, landed, produce

pytestmark = pytest.mark.full

_PATIENCE = 120.0
#: Brokers by their place; their ids count from 1.
_THIRD = 2


class Three:
    """Three brokers: only the third has the scene's topic, the first two have another one."""

    def __init__(self, cluster: Kafka, scene: Scene) -> None:
        self.cluster = cluster
        self.scene = scene
        self.beside = f"{scene.name}_beside"
        self.admin = AdminClient({"bootstrap.servers": scene.bootstrap})
        self.make(scene.topic, [3])
        self.make(f"events.{self.beside}", [1, 2])
        one = {"min.insync.replicas": "1"}
        there = self.admin.list_topics(timeout=20).topics
        new = {
            t.name: NewTopic(t.name, t.partitions, 3, config={**t.config, **one})
            for t in (*OWN_TOPICS, REGISTRY_TOPIC)
        }
        # Of one replica each, as a partition is that the third alone holds; the first two hold these.
        config = new[wire.SYSTEM_ERRORS].config
        new[wire.SYSTEM_ERRORS] = NewTopic(
            wire.SYSTEM_ERRORS, 2, replica_assignment=[[1], [2]], config=config
        )
        self._make([topic for name, topic in new.items() if name not in there])

    def make(self, topic: str, holders: list[int]) -> None:
        self._make([NewTopic(topic, 1, replica_assignment=[holders], config={"min.insync.replicas": "1"})])

    def _make(self, topics: list[NewTopic]) -> None:
        for future in self.admin.create_topics(topics).values() if topics else ():
            future.result(30)

    def start(self, *, late: bool = False, **settings: object) -> Inline:
        """`late`: with the topic that `begins_late`."""
        topics = rf"events\.(late_)?{self.scene.name}.*" if late else rf"events\.{self.scene.name}.*"
        writer: Inline = self.scene.writer(topics=topics, **settings)
        return writer

    def begins_late(self) -> str:
        """A topic on the third broker only, which begins after 0; return its event name."""
        name = f"late_{self.scene.name}"
        self.make(f"events.{name}", [3])
        eventually(lambda: self.leader(f"events.{name}") == 3, _PATIENCE)
        produce(self.scene.bootstrap, f"events.{name}", [event("gone-0", name), event("gone-1", name)])
        delete_records(self.scene.bootstrap, f"events.{name}", 0, 2)
        self.cluster.children[_THIRD].stop()  # a broker that is killed forgets what it has just deleted
        self.start_the_third()
        return name

    def leader(self, topic: str) -> int:
        partition = self.admin.list_topics(topic, timeout=20).topics[topic].partitions.get(0)
        return -1 if partition is None else int(partition.leader)  # one that was just made may have none yet

    def lose_the_third(self) -> None:
        self.cluster.kill(_THIRD)
        eventually(lambda: self.leader(self.scene.topic) == -1, _PATIENCE)

    def start_the_third(self) -> None:
        self.cluster.children[_THIRD].start()
        eventually(lambda: self.leader(self.scene.topic) == 3, _PATIENCE)

    def neighbour_lands(self) -> None:
        before = landed(self.scene.dsn, self.beside)
        produce(self.scene.bootstrap, f"events.{self.beside}", [event(f"b-{before}", self.beside)])
        eventually(lambda: landed(self.scene.dsn, self.beside) == before + 1, _PATIENCE)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """Each test has the third started again when it ends."""
    with started(Kafka(tmp_path_factory.mktemp("three") / "kafka", brokers=3, heap_mb=384)) as cluster:
        yield cluster


@pytest.fixture
def three(brokers: Kafka, database: Database, inline_writers: StartInline, tmp_path: Path) -> Three:
    return Three(
        brokers,
        Scene(
            start_writer=inline_writers,
            bootstrap=brokers.bootstrap,
            dsn=database.dsn,
            gateway="",
            folder=tmp_path,
        ),
    )


@pytest.mark.timeout(400)
def test_a_partition_without_a_leader_holds_up_no_other(
    three: Three, caplog: pytest.LogCaptureFixture
) -> None:
    late = three.begins_late()
    writer = three.start(reconcile_seconds=1)
    produce(three.scene.bootstrap, three.scene.topic, [event("a-0", three.scene.name)])
    eventually(lambda: three.scene.landed() == 1, _PATIENCE)
    three.lose_the_third()
    # What was under way with the dead broker ends first, and a batch behind it: all that it asks knows
    # who leads now.  From then on nothing stops the writer.
    three.neighbour_lands()
    three.neighbour_lands()
    eventually(lambda: writer.job._backoff._failures == 0 and writer.job._status.ready()[0], _PATIENCE)
    caplog.clear()
    for _ in range(5):
        three.neighbour_lands()
    fresh = f"{three.scene.topic}_made_now"
    three.make(fresh, [1, 2])
    produce(three.scene.bootstrap, fresh, [event("n-0", f"{three.scene.name}_made_now")])
    eventually(lambda: landed(three.scene.dsn, f"{three.scene.name}_made_now") == 1, _PATIENCE)
    _an_audit_leaves_out_what_nobody_leads(three)
    waited = [r for r in caplog.records if r.getMessage() == "the writer waits"]
    assert [(r.reason, r.code) for r in waited] == []  # type: ignore[attr-defined]

    writer.stop()
    caplog.clear()
    writer = three.start(reconcile_seconds=1, late=True)  # nobody can say where those without a leader begin
    three.neighbour_lands()
    assert writer.refused == {}

    three.start_the_third()
    produce(three.scene.bootstrap, three.scene.topic, [event("a-1", three.scene.name)])
    eventually(lambda: three.scene.landed() == 2, _PATIENCE)
    # Taken up where its leader says that it begins, and not before anybody could tell.
    produce(three.scene.bootstrap, f"events.{late}", [event("l-2", late)])
    eventually(lambda: landed(three.scene.dsn, late) == 1, _PATIENCE)
    assert writer.refused == {}


@pytest.mark.timeout(1800)
def test_starting_writer_names_the_diverted_events_partition_that_has_no_leader(three: Three) -> None:
    grown = NewPartitions(wire.SYSTEM_ERRORS, 3, replica_assignment=[[3]])
    for future in three.admin.create_partitions([grown]).values():
        future.result(30)
    writer = three.start()
    produce(three.scene.bootstrap, f"events.{three.beside}", [b"no json"])
    three.neighbour_lands()
    writer.stop()
    three.lose_the_third()
    eventually(lambda: asyncio.run(_trimmed(three)) == {0, 1}, _PATIENCE)  # the others are, without a wait
    writer = three.start(wait=False)
    eventually(lambda: f"{wire.SYSTEM_ERRORS}/2 has no leader" in writer.trouble, _PATIENCE)
    _a_person_sees_what_has_a_leader(three)
    three.start_the_third()
    three.neighbour_lands()


def _audit(three: Three) -> Report:
    topics = rf"events\.{three.scene.name}.*"
    databases = {three.scene.database: three.scene.dsn}
    return asyncio.run(audit(Request(Brokers(three.scene.bootstrap), databases, topics, deep=True)))


def _an_audit_leaves_out_what_nobody_leads(three: Three) -> None:
    report = eventually(lambda: r if not (r := _audit(three)).in_motion else None, _PATIENCE)
    assert (report.findings, report.balanced) == ([], False)
    assert report.leaderless == [f"{three.scene.topic}/0"]
    assert any(three.scene.topic in each and "no broker leads it" in each for each in report.unchecked)
    beside = [line for line in report.lines if line.topic == f"events.{three.beside}"]
    assert report.receipts >= sum(line.read for line in beside) > 0


async def _trimmed(three: Three) -> set[int]:
    """Delete drained records; return the partitions for which that was possible."""
    log = Cluster(KafkaSettings(bootstrap=three.scene.bootstrap), three.scene.topic)
    try:
        old = await (await log.start()).offsets_before(wire.SYSTEM_ERRORS, time.time() - 0.1)
        await log.delete_below(wire.SYSTEM_ERRORS, old)
        return set(old)
    finally:
        await log.stop()


def _a_person_sees_what_has_a_leader(three: Three) -> None:
    away = f"{wire.SYSTEM_ERRORS}/2"
    report = _audit(three)
    assert (report.findings, report.balanced) == ([], False)
    assert away in report.leaderless
    at = ["--kafka", three.scene.bootstrap]
    for arguments in (["errors", "tail"], ["partitions", "list"]):
        told = CliRunner().invoke(app, [*arguments, *at])
        assert told.exit_code == 0, told.output
        assert (away in told.stderr) == (arguments[0] == "errors")
        assert ("no_envelope" in told.stdout) == (arguments[0] == "errors")
