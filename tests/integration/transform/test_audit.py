"""The audit of transforms: a healthy one has no finding, and each planted fault is named."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.structs import OffsetAndMetadata
from confluent_kafka import Producer

from services.ops.findings import Report, TransformLine
from shared import wire
from shared.kafka_read.offsets import Partition
from shared.transform_replay import EMITTED, Replay, ReplayOutcome
from shared.transform_totals import Position, Totals, as_record
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import Database
from tests.fixtures.transform_service import audited
from tests.fixtures.transforms import DIGEST, TransformScene
from tests.fixtures.writer import event, produce


@pytest.fixture
def scene(kafka: HasBootstrap) -> TransformScene:
    """A transform that has emitted 2 events as 3 outputs, dropped one, parked one and filtered one."""
    scene = TransformScene.make(kafka.bootstrap)
    scene.send([1, 0, None, 2])
    produce(scene.bootstrap, scene.source, [event("x", "other")])
    scene.send([1], partition=1)
    assert scene.run().fault is None
    return scene


def emit(scene: TransformScene, k: int, offset: int, transform: str = "") -> None:
    """Put an output of a source event on its topic, as another program could."""
    headers = [
        (wire.HEADER_CONTEXT, wire.CONTEXT_BYTES),
        (wire.HEADER_SOURCE, f"{scene.source}/0/{offset}".encode()),
        (wire.HEADER_TRANSFORM, f"{transform or scene.name}@{DIGEST}".encode()),
    ]
    value = event(f"{scene.name}:0-{offset}" + (f":{k}" if k > 1 else ""), "made")
    produce(scene.bootstrap, scene.target, [value], headers=headers)


def state(scene: TransformScene, **counts: int) -> None:
    """Change the counts of partition 0 in the group's offset, as a faulty run would have committed them."""
    stored = scene.totals()[scene.source, 0]
    totals = Totals(**{name: stored[name] for name in Totals.__dataclass_fields__}).plus(**counts)

    async def commit() -> None:
        group = wire.TRANSFORM_GROUP + scene.name
        consumer = AIOKafkaConsumer(
            bootstrap_servers=scene.bootstrap, group_id=group, enable_auto_commit=False
        )
        await consumer.start()
        try:
            partition = TopicPartition(scene.source, 0)
            consumer.assign([partition])
            await consumer.commit({partition: OffsetAndMetadata(stored["next"], totals.metadata())})
        finally:
            await consumer.stop()

    asyncio.run(commit())


def findings(report: Report) -> list[tuple[str, str, str]]:
    return [(each.code.value, each.receipt, each.detail) for each in report.findings]


def test_a_healthy_transform_has_no_finding(scene: TransformScene, migrated: Database) -> None:
    report = audited(scene, migrated)
    assert findings(report) == []
    of_source = [each for each in report.transforms if each.topic == scene.source]
    one = {"filtered": 1, "dropped": 1, "parked": 1, "emitted": 2, "outputs": 3, "read": 5, "on_kafka": 3}
    assert of_source == [
        TransformLine(scene.name, scene.source, 0, 0, 5, **one),
        TransformLine(scene.name, scene.source, 1, 0, 1, emitted=1, outputs=1, read=1, on_kafka=1),
    ]
    (described, *_) = [each for each in report.as_dict()["transforms"] if each["topic"] == scene.source]
    assert described["accounted"] == 5
    by_totals = audited(scene, migrated, deep=False)
    assert findings(by_totals) == []
    assert [each.read for each in by_totals.transforms] == [None] * len(by_totals.transforms)


def test_events_that_were_not_processed_yet_are_no_finding(scene: TransformScene, migrated: Database) -> None:
    scene.send([1, 1], first=9)
    emit(scene, 1, 6)  # a run that has committed after the audit has read the offsets
    assert findings(audited(scene, migrated)) == []


def replay(scene: TransformScene, *, is_rehearsal: bool = False, **payload: int) -> None:
    """Give the parked event to the transform again, with another payload."""
    topic_id = scene.totals()[scene.source, 0]["topic_id"]
    attempt = Replay(
        job="j",
        event=1,
        attempt=1,
        topic_id=topic_id,
        topic=scene.source,
        partition=0,
        offset=2,
        is_rehearsal=is_rehearsal,
    )
    headers = [(wire.HEADER_CONTEXT, attempt.context(scene.name))]
    produce(
        scene.bootstrap, wire.TRANSFORM_REPLAYS, [event("0-2", "source", n=2, **payload)], headers=headers
    )
    return attempt


def test_replays_are_counted_with_their_topic(scene: TransformScene, migrated: Database) -> None:
    for payload in ({}, {"outputs": 2}):  # it fails again, then it is emitted
        replay(scene, **payload)
        assert scene.run().fault is None

    report = audited(scene, migrated)

    assert findings(report) == []
    (line,) = [each for each in report.transforms if each.topic == wire.TRANSFORM_REPLAYS]
    assert (line.parked, line.emitted, line.outputs, line.on_kafka) == (1, 1, 2, 2)


def test_rehearsals_count_as_filtered(scene: TransformScene, migrated: Database) -> None:
    for payload in ({}, {"outputs": 2}):
        replay(scene, is_rehearsal=True, **payload)
        assert scene.run().fault is None

    report = audited(scene, migrated)

    assert findings(report) == []
    (line,) = [each for each in report.transforms if each.topic == wire.TRANSFORM_REPLAYS]
    assert (line.read, line.filtered, line.outputs, line.on_kafka) == (2, 2, 0, 0)


def test_a_replay_behind_the_position_is_no_finding(scene: TransformScene, migrated: Database) -> None:
    attempt = Replay(job="j", event=1, attempt=1, topic_id="t", topic=scene.source, partition=0, offset=2)
    outcome = ReplayOutcome(
        transform=scene.name, digest=DIGEST, replay=attempt, at=10**9, outcome=EMITTED, outputs=1
    )
    emit(scene, 1, 2)
    produce(scene.bootstrap, wire.TRANSFORM_REPLAYED, [outcome.value()])

    assert findings(audited(scene, migrated)) == []


def test_outputs_that_no_run_has_written_are_named(scene: TransformScene, migrated: Database) -> None:
    emit(scene, 2, 3)
    emit(scene, 3, 3)
    emit(scene, 1, 1)
    found = findings(audited(scene, migrated))
    named = f"transform {scene.name}"
    assert [(code, receipt) for code, receipt, _ in found] == [
        ("phantom", f"{scene.source}/0"),
        ("wrong_total", f"{scene.source}/0"),
        ("duplicate", f"{scene.source}/0/3"),
    ]
    assert [detail for *_, detail in found][:2] == [
        f"{named} counts 3 outputs, their topics hold 5",
        f"{named} counts 2 emitted, 3 events have outputs",
    ]
    assert f"output {scene.name}:0-3:2 of this event is there again, at {scene.target}/" in found[2][2]


#: Changes of the totals, and the findings.
TOTALS: list[tuple[dict[str, int], set[str]]] = [
    ({"outputs": 1}, {"lost: 1 of 4 outputs are not on their topics"}),
    ({"outputs": -1}, {"phantom: counts 2 outputs, their topics hold 3"}),
    ({"parked": 1, "dropped": -1}, {"wrong_total: counts 2 parked, onramp.user_errors holds 1"}),
    (
        {"emitted": 1, "dropped": -1},
        {"wrong_total: counts 3 emitted, 2 events have outputs"},
    ),
    ({"dropped": -1}, {"unbalanced: 5 were to be accounted for"}),
    ({"dropped": 1}, {"unbalanced: 5 were to be accounted for"}),
]
DIFFER = "wrong_total: the totals of its group's offset"


def test_totals_that_differ_from_kafka_are_named(scene: TransformScene, migrated: Database) -> None:
    for counts, expected in TOTALS:
        state(scene, **counts)
        found = [
            f"{code}: {detail.removeprefix(f'transform {scene.name}').lstrip(': ')}"
            for code, _, detail in findings(audited(scene, migrated))
        ]
        for each in (DIFFER, *expected):
            assert any(text.startswith(each) for text in found), (counts, each, found)
        assert {each.partition(":")[0] for each in found} <= {
            "wrong_total",
            *(each.partition(":")[0] for each in expected),
        }
    by_totals = [code for code, *_ in findings(audited(scene, migrated, deep=False))]
    assert by_totals == ["unbalanced", "wrong_total"], "more outcomes than offsets need no reading"


def test_outputs_that_kafka_may_have_deleted_are_not_lost(scene: TransformScene, migrated: Database) -> None:
    state(scene, outputs=1)
    key, value = as_record(
        scene.name,
        Partition(scene.source, 0),
        Position(1, Totals(topic_id="0f6a0e3f8a11", first=0)),
    )
    producer = Producer({"bootstrap.servers": scene.bootstrap})
    producer.produce(wire.TRANSFORMED, value, key)
    assert producer.flush(30) == 0
    report = audited(scene, migrated)
    assert "lost" not in [each.code.value for each in report.findings]
    assert any("was recreated" in each for each in report.unchecked)
