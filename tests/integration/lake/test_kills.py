"""Kills and freezes of the driver at each step: each event is in its table once."""

import itertools
from pathlib import Path

import pytest
from deltalake import DeltaTable

from services.lake.task.order import LakeOrder, LakeReport
from shared.lake.delta_log import position_of
from shared.spark.driver_process import EXIT_FAILED, EXIT_FENCED
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.lake import LakeScene
from tests.fixtures.lake_driver import InlineJobs
from tests.fixtures.writer import eventually

#: The plan is on Kafka; before and after the commit to the table; before and after the group's offsets.
STEPS = ("planned", "before_commit", "committed", "landed", "settled")


@pytest.fixture
def scene(kafka: HasBootstrap, tmp_path: Path) -> LakeScene:
    return LakeScene(kafka.bootstrap, tmp_path / "lake")


@pytest.mark.parametrize(
    "step",
    [each if each == "committed" else pytest.param(each, marks=pytest.mark.full) for each in STEPS],
)
def test_a_killed_driver_is_continued_exactly(scene: LakeScene, step: str) -> None:
    scene.send(5)
    scene.send(4, partition=1)
    with scene.program(f"lake.{step}=kill") as driver:
        assert driver.wait(60) == -9
    scene.send(3, first=5)
    with scene.running():
        scene.has(12)
    assert_positions(scene, 8, 4)


@pytest.mark.full
def test_a_driver_that_is_killed_again_and_again_lands_each_event_once(scene: LakeScene) -> None:
    for n in range(10):
        scene.send(5, first=5 * n)
        with scene.program(f"lake.{STEPS[n % len(STEPS)]}=kill") as driver:
            assert driver.wait(60) == -9
    with scene.running():
        scene.has(50)
    assert_positions(scene, 50)


def test_a_range_is_finished_under_the_routes_of_its_plan(scene: LakeScene) -> None:
    """The registry names another table while the driver is down: no event is in both."""
    scene.send(5)
    with scene.program("lake.planned=kill") as driver:
        assert driver.wait(60) == -9
    other = f"{scene.name}_later"
    scene.registry.put(scene.document(destinations=[{"type": "lake", "table": other}], lake={"start": "now"}))
    with scene.running():
        scene.has(5)
        scene.send(3, first=5)
        scene.has(3, other)
    scene.has(5)


@pytest.mark.full
@pytest.mark.parametrize("step", ["before_commit", "planned"])
def test_a_zombie_that_wakes_up_lands_nothing_twice_and_ends(scene: LakeScene, step: str) -> None:
    scene.send(5)
    flag = scene.folder.parent / f"lake.{step}"
    with scene.program(f"lake.{step}=pause") as zombie:
        eventually(flag.exists)
        with scene.running():
            scene.send(3, first=5)
            scene.has(8)
            flag.unlink()
            assert zombie.wait(60) == EXIT_FENCED
            scene.send(2, first=8)
            scene.has(10)
    assert_positions(scene, 10)


def test_two_drivers_leave_one_driver_fenced_and_the_other_driver_lands_every_event(scene: LakeScene) -> None:
    """It is the newer one, unless a slow Kafka makes the older one connect, and so take over, once more."""
    with scene.running() as older:
        scene.send(3)
        scene.has(3)
        with scene.running() as newer:
            numbers = itertools.count(3)

            def is_one_fenced() -> bool:
                scene.send(1, first=next(numbers))  # a driver without work does not notice
                return EXIT_FENCED in {older.code, newer.code}

            eventually(is_one_fenced)
            end = next(numbers)
            scene.has(end)
            assert {older.code, newer.code} == {EXIT_FENCED, None}
    assert_positions(scene, end)


def test_the_service_ends_with_the_jvm_of_spark_also_without_work(scene: LakeScene) -> None:
    with scene.running() as running:
        eventually(lambda: running.process.status.is_ready)
        running.jobs.has_ended = True
        eventually(lambda: running.code == EXIT_FAILED)


def test_the_service_ends_with_the_jvm_of_spark_during_a_batch(
    scene: LakeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(jobs: InlineJobs, _: LakeOrder) -> list[LakeReport]:
        jobs.has_ended = True
        raise RuntimeError

    monkeypatch.setattr(InlineJobs, "run", fail)
    scene.send(1)
    with scene.running() as running:
        eventually(lambda: running.code == EXIT_FAILED)


def assert_positions(scene: LakeScene, *ends: int) -> None:
    """The table's own log has the ends and the rows of each partition."""
    table = scene.table()
    assert isinstance(table, DeltaTable)
    ids = {key.partition: key.topic_id for key in scene.known_positions() if key.table == scene.name}
    for number, end in enumerate(ends):
        position = position_of(table, ids[number], number)
        assert position is not None
        assert (position.next_offset, position.landed) == (end, end)
