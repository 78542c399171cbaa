"""The driver's loop on a real Kafka, with lane runs in its own threads instead of Spark's tasks."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from services.transform.driver.kafka_epochs import take_epoch
from services.transform.lane.order import LaneOrder, LaneReport
from shared import wire
from shared.kafka_security import Brokers
from shared.spark.driver_process import EXIT_FAILED, EXIT_FENCED, EXIT_STOPPED
from stack.kafka import Kafka
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.running_part import started
from tests.fixtures.transform_driver import InlineJobs, driver, write_state
from tests.fixtures.transforms import TransformScene
from tests.fixtures.writer import delete_records, delete_topic, eventually, records


@pytest.fixture
def scene(kafka: HasBootstrap) -> TransformScene:
    return TransformScene.make(kafka.bootstrap)


def test_events_are_transformed_and_the_service_stops(scene: TransformScene) -> None:
    with driver(scene, lanes=2) as running:
        scene.send([1, 0, None])
        scene.send([1], partition=1)
        eventually(lambda: len(scene.outputs()) == 2)
        eventually(lambda: sum(running.status["lag"].values()) == 0)
        eventually(lambda: running.status["totals"]["emitted"] == 2)
        assert running.status["totals"] | {} == {
            "filtered": 0,
            "dropped": 1,
            "parked": 1,
            "emitted": 2,
            "outputs": 2,
            "deaths": 0,
            "skipped": 0,
        }
        assert running.stop() == EXIT_STOPPED
    assert {order.lane for order in running.jobs.orders} == {0, 1}


def test_a_transform_that_parks_half_of_its_events_is_paused_until_it_is_resumed(
    scene: TransformScene,
) -> None:
    scene.send([None] * 501 + [1] * 499)
    with driver(scene) as running:
        eventually(lambda: running.status.get("state") == "paused")
        assert running.status["reason"] == "501 of the last 1000 events were parked"
        eventually(lambda: not running.status["running_lanes"])
        scene.send([1], first=1000)
        eventually(lambda: sum(running.status["lag"].values()) == 1)
        write_state(scene, state="running", by="someone")
        eventually(lambda: scene.offsets()[0] == 1001)
    assert len(scene.parked()) == 501


def test_a_deploy_applies_to_the_next_run_and_a_change_of_lanes_takes_an_epoch(scene: TransformScene) -> None:
    with driver(scene) as running:
        scene.send([1])
        eventually(lambda: len(scene.outputs()) == 1)
        first = running.jobs.orders[-1]
        running.registry.put(running.document(source="# second", lanes=2))
        eventually(lambda: running.status["version"] != first.digest)
        scene.send([1], partition=1)
        eventually(lambda: len(scene.outputs()) == 2)
        eventually(lambda: running.jobs.orders[-1].lanes == 2)
    last = running.jobs.orders[-1]
    assert (first.lanes, last.lanes) == (1, 2)
    assert last.epoch > first.epoch


class BusyJobs(InlineJobs):
    """Runs with one slot, while each partition always has a new event."""

    def __init__(self, scene: TransformScene) -> None:
        super().__init__(slots=1)
        self._scene = scene
        self._running = 0
        self.max_running = 0

    def run(self, order: LaneOrder, *rest: Any) -> LaneReport:
        self._running += 1
        self.max_running = max(self.max_running, self._running)
        try:
            for partition in (0, 1):
                self._scene.send([0], partition=partition, first=len(self.orders))
            return super().run(order, *rest)
        finally:
            self._running -= 1


def test_transforms_take_turns_while_there_are_fewer_slots_than_lanes(scene: TransformScene) -> None:
    jobs, other = BusyJobs(scene), f"{scene.name}_other"
    with driver(scene, jobs=jobs, lanes=2) as running:
        document = running.document(lanes=2)
        document["transforms"][other] = document["transforms"][scene.name]
        running.registry.put(document)
        eventually(lambda: other in [order.name for order in jobs.orders])
        first = [order.name for order in jobs.orders].index(other)
        eventually(lambda: len(jobs.orders) >= first + 6)
    names = [order.name for order in jobs.orders[first : first + 6]]
    assert names == [other, scene.name] * 3
    assert {order.lane for order in jobs.orders if order.name == scene.name} == {0, 1}
    assert jobs.max_running == 1


def test_a_driver_with_an_older_epoch_ends(scene: TransformScene) -> None:
    with driver(scene) as running:
        eventually(lambda: running.process.status.is_ready)
        asyncio.run(take_epoch(Brokers(scene.bootstrap), {scene.name: 1}))
        assert running.join() == EXIT_FENCED


def test_the_service_ends_with_the_jvm_of_spark(scene: TransformScene) -> None:
    with driver(scene) as running:
        eventually(lambda: running.process.status.is_ready)
        running.jobs.has_ended = True
        assert running.join() == EXIT_FAILED


def test_a_position_outside_of_the_log_pauses_until_an_operator_accepts(scene: TransformScene) -> None:
    scene.send([1, 1])
    scene.run()
    scene.send([1, 1, 1], first=2)
    delete_records(scene.bootstrap, scene.source, 0, 4)
    with driver(scene) as running:
        eventually(lambda: running.status.get("state") == "paused")
        assert "events may have been lost" in running.status["reason"]
        write_state(scene, state="running", accept=True)
        eventually(lambda: scene.offsets()[0] == 5)
        eventually(lambda: b'"accept":false' in _states(scene)[-1])


@pytest.mark.full  # with a Kafka of its own: the topic has the states of all transforms
def test_transforms_are_paused_after_the_loss_of_their_states(tmp_path: Path) -> None:
    with started(Kafka(tmp_path)) as own:
        scene = TransformScene.make(own.bootstrap)
        scene.send([1])
        scene.run()
        write_state(scene, state="paused", by="someone")
        delete_topic(own.bootstrap, wire.TRANSFORMERS)
        scene.send([1], first=1)
        with driver(scene) as running:
            eventually(lambda: running.status.get("state") == "paused")
            assert running.status["reason"].startswith("onramp.transformers was lost")
            write_state(scene, state="running", by="someone")
            eventually(lambda: scene.offsets()[0] == 2)
        with driver(scene) as running:
            scene.send([1], first=2)
            eventually(lambda: scene.offsets()[0] == 3)


def _states(scene: TransformScene) -> list[bytes]:
    key = f"state:{scene.name}".encode()
    return [each.value or b"" for each in records(scene.bootstrap, wire.TRANSFORMERS) if each.key == key]
