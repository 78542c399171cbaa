"""Kills and freezes of a lane run at each step: results are those of one undisturbed run."""

import asyncio
import signal
from pathlib import Path

import pytest

from services.transform.driver.kafka_epochs import take_epoch
from shared.errors import FENCED
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.transform_runs import assert_exact, frozen, run_apart, thaw
from tests.fixtures.transforms import TransformScene

#: Behind the fence, around the function, and between the requests of the transaction.
USUAL = ("after_function", "before_commit", "committed")
STEPS = ("fenced", "after_function", "begun", "sent", "before_commit", "committed")


@pytest.fixture
def scene(kafka: HasBootstrap) -> TransformScene:
    scene = TransformScene.make(kafka.bootstrap, lanes=2)
    scene.run()  # its first positions are a transaction too; failpoints are for that of the events
    for partition in (0, 1):
        scene.send([2, 0, None] * 3, partition=partition)
    return scene


@pytest.mark.parametrize(
    "step", [pytest.param(each, marks=() if each in USUAL else pytest.mark.full) for each in STEPS]
)
def test_a_run_that_is_killed_leaves_no_trace_of_its_transaction(scene: TransformScene, step: str) -> None:
    with run_apart(scene.order(), step, "kill") as (process, _):
        process.join(60)
        assert process.exitcode == -signal.SIGKILL

    assert scene.run().fault is None

    assert_exact(scene)


@pytest.mark.parametrize("step", ["after_function", "before_commit"])
def test_a_frozen_run_beside_its_retry_is_fenced(scene: TransformScene, tmp_path: Path, step: str) -> None:
    with frozen(scene.order(), tmp_path, step) as reports:
        assert scene.run().fault is None
        report = thaw(tmp_path, step, reports)

    assert report.fault == FENCED
    assert report.transactions == 0
    assert_exact(scene)


def test_a_zombie_of_an_epoch_with_more_lanes_is_fenced(scene: TransformScene, tmp_path: Path) -> None:
    assert scene.run(lanes=2).fault is None
    scene.send([2, 0, None] * 3, partition=1, first=9)
    with frozen(scene.order(lane=1, lanes=2), tmp_path, "before_commit") as reports:
        newer = asyncio.run(take_epoch(scene.order().brokers, {scene.name: 1}))
        assert scene.run(epoch=newer).fault is None
        report = thaw(tmp_path, "before_commit", reports)

    assert report.fault == FENCED
    assert scene.counts(1) == {"dropped": 6, "parked": 6, "emitted": 6, "outputs": 12}
    assert len(scene.outputs()) == 6 + 12


def test_a_run_of_an_older_epoch_is_refused(scene: TransformScene) -> None:
    newer = asyncio.run(take_epoch(scene.order().brokers, {scene.name: 1}))

    report = scene.run()

    assert report.fault == FENCED
    assert str(newer) in report.detail
    assert scene.offsets() == {0: 0, 1: 0}
