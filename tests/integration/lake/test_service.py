"""The lake service as a process with Spark: workers, JVM and driver are killed while events arrive."""

import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from shared.priority import NICE
from stack import services
from stack.registry import OwnRegistry
from stack.services import Service
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.lake import LakeScene
from tests.fixtures.writer import eventually


@pytest.fixture
def scene(kafka: HasBootstrap, tmp_path: Path) -> LakeScene:
    return LakeScene(kafka.bootstrap, tmp_path / "lake")


@pytest.fixture
def service(scene: LakeScene, tmp_path: Path) -> Iterator[Service]:
    own = OwnRegistry(scene.bootstrap, scene.document())
    env = own.env | {"ONRAMP_LAKE_ALL": "false", "ONRAMP_LAKE_BATCH_SECONDS": "0.5"}
    service = services.lake(
        bootstrap=scene.bootstrap, folder=scene.folder, log=tmp_path / "lake.log", env=env
    )
    service.start()
    try:
        service.wait_ready()
        yield service
    finally:
        service.stop()


@pytest.mark.full
def test_events_are_exact_although_workers_and_the_driver_are_killed(
    scene: LakeScene, service: Service
) -> None:
    family = [psutil.Process(service.pid), *psutil.Process(service.pid).children(recursive=True)]
    assert {each.nice() for each in family} == {min(psutil.Process().nice() + NICE, 19)}
    for n in range(10):
        for partition in (0, 1):
            scene.send(3_000, first=3_000 * n, partition=partition, origin="EWR")
        if n % 3 == 2:
            service.kill()
            service.start()
            service.wait_ready()
            continue
        eventually(lambda: scene.count() > 3_000 * n)  # noqa: B023 - called at once
        for worker in workers_of(service):
            with suppress(psutil.NoSuchProcess):
                worker.send_signal(signal.SIGKILL)
    scene.has(60_000)


def workers_of(service: Service) -> list[psutil.Process]:
    """Return the Python workers that Spark's daemon has forked."""
    workers: list[psutil.Process] = []
    for process in psutil.Process(service.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # also of a zombie
            if "worker_daemon" in " ".join(process.cmdline()):
                workers += process.children()
    return workers
