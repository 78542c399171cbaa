"""The broker that coordinates a lane's transaction stops: outcomes are those of one undisturbed run."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka.client import AIOKafkaClient, CoordinationType

from shared import wire
from shared.errors import KAFKA_UNAVAILABLE
from shared.kafka_security import Brokers
from stack.kafka import Kafka
from tests.fixtures.running_part import started
from tests.fixtures.transform_runs import assert_exact, frozen, thaw
from tests.fixtures.transforms import TransformScene
from tests.fixtures.writer import make_topics

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """Each test starts again the broker that it stops."""
    with started(Kafka(tmp_path_factory.mktemp("three") / "kafka", brokers=3, heap_mb=384)) as cluster:
        yield cluster


@pytest.fixture
def scene(brokers: Kafka) -> TransformScene:
    make_topics(brokers.bootstrap, wire.USER_ERRORS, replicas=3)
    scene = TransformScene.make(brokers.bootstrap, replicas=3)
    scene.run()  # its first positions
    for partition in (0, 1):
        scene.send([2, 0, None] * 3, partition=partition)
    return scene


async def coordinator_of(scene: TransformScene) -> int:
    """Return the id of the broker that coordinates the lane's transactions, from 1."""
    client = AIOKafkaClient(**Brokers(scene.bootstrap).aiokafka())
    await client.bootstrap()
    try:
        identity = scene.order().transactional_id
        return int(await client.coordinator_lookup(CoordinationType.TRANSACTION, identity))
    finally:
        await client.close()


@pytest.mark.parametrize("is_killed", [False, True], ids=["run goes on", "run is killed"])
@pytest.mark.parametrize("step", ["begun", "before_commit"])
def test_outcomes_are_exact_although_the_coordinator_of_an_open_transaction_stops(
    brokers: Kafka, scene: TransformScene, tmp_path: Path, step: str, is_killed: bool
) -> None:
    with frozen(scene.order(), tmp_path, step) as reports:
        coordinator = asyncio.run(coordinator_of(scene))
        brokers.kill(coordinator - 1)
        report = None if is_killed else thaw(tmp_path, step, reports)
    try:
        assert report is None or report.fault in {None, KAFKA_UNAVAILABLE}

        assert scene.run().fault is None

        assert_exact(scene)
        assert asyncio.run(coordinator_of(scene)) != coordinator
    finally:
        brokers.children[coordinator - 1].start()
        brokers.wait_ready()
