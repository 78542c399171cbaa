"""The transform service as a process, with Spark and the function's own process."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from shared.errors import TRANSFORM_TIMEOUT
from shared.registry.transforms import digest_of_source
from stack import services
from stack.registry import OwnRegistry
from stack.services import Service
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.transform_service import SOURCE, document_of, entries_of, entry_of, python_workers
from tests.fixtures.transforms import TransformScene
from tests.fixtures.writer import eventually


@pytest.fixture
def scene(kafka: HasBootstrap) -> TransformScene:
    return TransformScene.make(kafka.bootstrap)


@contextmanager
def running(scene: TransformScene, document: dict[str, Any], folder: Path) -> Iterator[Service]:
    own = OwnRegistry(scene.bootstrap, document)
    log = folder / "transform.log"
    service = services.transform(bootstrap=scene.bootstrap, dsn="", log=log, env=own.env)
    service.start()
    try:
        service.wait_ready()
        yield service
    finally:
        service.stop()


@pytest.fixture
def service(scene: TransformScene, tmp_path: Path) -> Iterator[Service]:
    with running(scene, document_of(scene, lanes=2), tmp_path) as service:
        yield service


@pytest.mark.full
def test_results_are_exact_although_workers_and_the_driver_are_killed(
    scene: TransformScene, service: Service
) -> None:
    for partition in (0, 1):
        scene.send([2, 0, None] * 300, partition=partition)
    eventually(lambda: sum(scene.offsets().values()) == 1800)
    for first in (900, 1200):
        scene.send([2, 0, None] * 100, first=first)
        worker = eventually(lambda: python_workers(service.pid))[0]
        worker.send_signal(signal.SIGKILL)
        end = first + 300
        eventually(lambda end=end: scene.offsets()[0] == end)
    service.kill()
    scene.send([2, 0, None] * 100, partition=1, first=900)
    service.start()
    eventually(lambda: scene.offsets() == {0: 1500, 1: 1200})

    third = {0: 500, 1: 400}
    for partition, n in third.items():
        counts = {"dropped": n, "parked": n, "emitted": n, "outputs": 2 * n}
        assert scene.counts(partition) == counts
    ids = [each.value for each in scene.outputs()]
    assert len(ids) == len(set(ids)) == 2 * 900
    assert len(scene.parked()) == 900


@pytest.mark.full
@pytest.mark.usefixtures("service")
def test_an_event_on_which_the_function_never_ends_is_parked_alone(scene: TransformScene) -> None:
    scene.send([1] * 10)
    looping = scene.send_payload(n=10, outputs=1, loops=True)
    scene.send([1] * 10, first=11)

    eventually(lambda: scene.offsets().get(0) == 21)

    (parked,) = scene.parked()
    assert (parked.value, parked.error["code"]) == (looping, TRANSFORM_TIMEOUT.code)
    assert len(scene.outputs()) == 20


@pytest.mark.full
def test_a_function_that_never_ends_delays_no_other_transform(scene: TransformScene, tmp_path: Path) -> None:
    """Both read one topic: the lag of the fast one returns to 0, while the other is at its first event."""
    looping = f"{scene.name}_looping"
    document = document_of(scene)
    document["transforms"][looping] = document_of(scene, limits={"cpu_ms": 60_000})["transforms"][scene.name]
    document["transforms"][scene.name] |= {"source": SOURCE, "digest": digest_of_source(SOURCE)}
    with running(scene, document, tmp_path) as service:
        scene.send_payload(n=0, outputs=1, loops=True)
        eventually(lambda: entries_of(service).get(looping, {}).get("running_lanes") == [0])
        for first in range(1, 1001, 200):
            scene.send([1] * 200, first=first)
            end = first + 200
            eventually(lambda end=end: scene.offsets().get(0) == end)
            eventually(lambda: sum(entry_of(service, scene.name)["lag"].values()) == 0)
        slow = entry_of(service, looping)
        assert (slow["running_lanes"], slow["lag"][f"{scene.source}/0"]) == ([0], 1001)
        assert slow["totals"]["emitted"] == 0
    assert len(scene.outputs()) == 1001
