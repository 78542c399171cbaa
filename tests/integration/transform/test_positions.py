"""First, lost and recreated positions of a transform."""

from contextlib import closing

import pytest
from confluent_kafka import TopicPartition

from shared import wire
from shared.errors import RECORD_TOO_LARGE, TRANSFORM_POSITION_LOST
from shared.transform_replay import Replay
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.transforms import TransformScene
from tests.fixtures.writer import _consumer, delete_records, delete_topic, event, make_topics, produce


@pytest.fixture
def scene(kafka: HasBootstrap) -> TransformScene:
    return TransformScene.make(kafka.bootstrap)


def test_start_now_skips_earlier_events_of_all_lanes(scene: TransformScene) -> None:
    scene.send([1, 1])
    scene.send([1], partition=1)

    assert scene.run(start="now", lane=1, lanes=2).without_position == 3
    scene.run(start="now", lane=0, lanes=2)
    scene.send([1], partition=0, first=2)
    scene.send([1], partition=1, first=1)
    for lane in (0, 1):
        scene.run(start="now", lane=lane, lanes=2)

    assert len(scene.outputs()) == 2
    assert scene.totals()[scene.source, 0]["first"] == 2
    assert scene.counts(1) == {"emitted": 1, "outputs": 1}


def test_a_recreated_topic_is_read_from_its_beginning(scene: TransformScene) -> None:
    scene.send([1, 1])
    scene.run()
    delete_topic(scene.bootstrap, scene.source)
    make_topics(scene.bootstrap, scene.source, partitions=2)
    scene.send([1, 0, 1], first=10)

    scene.run(start="now")

    assert len(scene.outputs()) == 4
    assert scene.counts(0) == {"dropped": 1, "emitted": 2, "outputs": 2}
    assert scene.offsets()[0] == 3


def test_a_recreated_topic_is_not_read_at_the_position_of_the_old_one(scene: TransformScene) -> None:
    scene.send([1, 1])
    scene.run()
    delete_topic(scene.bootstrap, scene.source)
    make_topics(scene.bootstrap, scene.source, partitions=2)
    scene.send([1], first=10)

    report = scene.run()

    assert report.fault is None
    assert len(scene.outputs()) == 3


def test_offsets_without_totals_are_restored_from_the_totals(scene: TransformScene) -> None:
    scene.send([1, 0])
    scene.run()
    _overwrite_offsets(scene)
    scene.send([1], first=2)

    scene.run(start="now")

    assert len(scene.outputs()) == 2
    assert scene.counts(0) == {"dropped": 1, "emitted": 2, "outputs": 2}


def test_a_position_outside_of_the_log_is_reported_until_it_is_accepted(scene: TransformScene) -> None:
    scene.send([1, 1])
    scene.run()
    scene.send([1, 1, 1], first=2)
    delete_records(scene.bootstrap, scene.source, 0, 4)

    report = scene.run()
    assert (report.fault, report.is_lost) == (TRANSFORM_POSITION_LOST, True)
    assert scene.offsets()[0] == 2
    scene.run(accept=True)

    assert scene.offsets()[0] == 5
    assert scene.counts(0) == {"emitted": 3, "outputs": 3, "skipped": 2}


def test_an_output_topic_that_refuses_parks_nothing(kafka: HasBootstrap) -> None:
    scene = TransformScene.make(kafka.bootstrap)
    small = f"{scene.target}_small"
    make_topics(scene.bootstrap, small, config={"max.message.bytes": "1000"})
    types = {"made": scene.types["made"].model_copy(update={"topic": small})}
    produce(scene.bootstrap, scene.source, [event("a", "source", n="x" * 5000, outputs=1)])

    report = scene.run(event_types=types)

    assert report.fault is RECORD_TOO_LARGE
    assert scene.parked() == []
    assert 0 not in scene.offsets() or scene.offsets()[0] == 0
    scene.run()
    assert len(scene.outputs()) == 1


def test_a_replayed_event_has_the_ids_of_the_first_attempt(scene: TransformScene) -> None:
    (value,) = scene.send([2])
    scene.run()
    replay = Replay(job="j", event=1, attempt=1, topic_id="t", topic=scene.source, partition=0, offset=0)
    for name in (scene.name, "other"):
        headers = [(wire.HEADER_CONTEXT, replay.context(name))]
        produce(scene.bootstrap, wire.TRANSFORM_REPLAYS, [value], headers=headers)

    scene.run()

    outputs = scene.outputs()
    assert len(outputs) == 4
    assert len({each.key for each in outputs}) == 2
    assert {each.headers[wire.HEADER_SOURCE] for each in outputs} == {f"{scene.source}/0/0".encode()}
    replays = scene.totals()[wire.TRANSFORM_REPLAYS, 0]
    assert (replays["emitted"], replays["outputs"], replays["filtered"]) == (1, 2, 1)


def _overwrite_offsets(scene: TransformScene) -> None:
    """Commit offsets without totals, as another client may; Kafka's forgetting of them looks the same."""
    with closing(_consumer(scene.bootstrap, wire.TRANSFORM_GROUP + scene.name)) as consumer:
        partitions = [TopicPartition(scene.source, n, 0) for n in range(scene.partitions)]
        consumer.commit(offsets=partitions, asynchronous=False)
