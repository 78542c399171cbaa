"""Kills and freezes of a lane run at each step: results are those of one undisturbed run."""

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from services.transform.driver.kafka_epochs import take_epoch
from services.transform.lane import task
from services.transform.lane.order import LaneOrder, LaneReport
from shared import failpoints
from shared.errors import FENCED
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.transforms import InProcess, TransformScene, by_kind
from tests.fixtures.writer import eventually

_FORK = multiprocessing.get_context("fork")
#: Behind the fence, around the function, and between the requests of the transaction.
USUAL = ("after_function", "before_commit", "committed")
STEPS = ("fenced", "after_function", "begun", "sent", "before_commit", "committed")


def _run(order: LaneOrder, armed: dict[str, str], reports: Connection) -> None:
    failpoints._ARMED.clear()
    failpoints._ARMED.update(armed)
    os.environ.pop("ONRAMP_FAILPOINT_PID", None)
    reports.send(asyncio.run(task.run(order, InProcess(by_kind))))


@contextmanager
def run_apart(order: LaneOrder, point: str, action: str) -> Iterator[tuple[Any, Connection]]:
    """Run a lane in a process of its own, with a failpoint."""
    ours, theirs = _FORK.Pipe()
    process = _FORK.Process(target=_run, args=(order, {f"transform.{point}": action}, theirs))
    process.start()
    theirs.close()
    try:
        yield process, ours
    finally:
        process.kill()
        process.join()


@contextmanager
def frozen(order: LaneOrder, folder: Path, point: str) -> Iterator[Connection]:
    """Run a lane that stands still at a failpoint until `thaw`."""
    os.environ["ONRAMP_FAILPOINT_DIR"] = str(folder)
    try:
        with run_apart(order, point, "pause") as (_, reports):
            eventually((folder / f"transform.{point}").exists)
            yield reports
    finally:
        del os.environ["ONRAMP_FAILPOINT_DIR"]


def thaw(folder: Path, point: str, reports: Connection) -> LaneReport:
    (folder / f"transform.{point}").unlink()
    report: LaneReport = reports.recv()
    return report


def assert_exact(scene: TransformScene, events: int = 9) -> None:
    """A third each is emitted (two outputs), dropped and parked, in each of the two partitions."""
    third = events // 3
    ids = [each.value for each in scene.outputs()]
    assert len(ids) == len(set(ids)) == 2 * 2 * third
    assert len(scene.parked()) == 2 * third
    for partition in (0, 1):
        counts = {"dropped": third, "parked": third, "emitted": third, "outputs": 2 * third}
        assert scene.counts(partition) == counts
        assert scene.offsets()[partition] == scene.totals()[scene.source, partition]["next"] == events


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
