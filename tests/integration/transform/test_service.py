"""The transform service as a process, with Spark and the function's own process."""

import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from shared.errors import TRANSFORM_TIMEOUT
from shared.registry.transforms import digest_of_source
from stack import services
from stack.registry import OwnRegistry
from stack.services import Service
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.transforms import TransformScene
from tests.fixtures.writer import eventually

_SOURCE = """
def transform(event, lookup):
    p = event["payload"]
    while p.get("loops"):
        pass
    if not p["outputs"]:
        return None
    return [{"event_name": "made", "payload": {"n": p["n"], "k": k}} for k in range(p["outputs"])]
"""


@pytest.fixture
def scene(kafka: HasBootstrap) -> TransformScene:
    return TransformScene.make(kafka.bootstrap)


@pytest.fixture
def service(scene: TransformScene, tmp_path: Path) -> Iterator[Service]:
    transform = {
        "from": "source",
        "to": ["made"],
        "start": "earliest",
        "lanes": 2,
        "limits": {"cpu_ms": 200},
        "source": _SOURCE,
        "digest": digest_of_source(_SOURCE),
    }
    document = {
        "event_types": {"source": {"topic": scene.source}, "made": {"topic": scene.target}},
        "transforms": {scene.name: transform},
    }
    own = OwnRegistry(scene.bootstrap, document)
    log = tmp_path / "transform.log"
    service = services.transform(bootstrap=scene.bootstrap, dsn="", log=log, env=own.env)
    service.start()
    try:
        service.wait_ready()
        yield service
    finally:
        service.stop()


@pytest.mark.full
def test_results_are_exact_although_workers_and_the_driver_are_killed(
    scene: TransformScene, service: Service
) -> None:
    for partition in (0, 1):
        scene.send([2, 0, None] * 300, partition=partition)
    eventually(lambda: sum(scene.offsets().values()) == 1800)
    for first in (900, 1200):
        scene.send([2, 0, None] * 100, first=first)
        worker = eventually(lambda: _workers(service.pid))[0]
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


def _workers(pid: int) -> list[psutil.Process]:
    """Return Spark's Python workers: children of its daemon, with the same command line."""
    workers = []
    for each in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.Error):  # it has ended
            parent = each.parent()
            if parent and _is_daemon(parent) and _is_daemon(each):
                workers.append(each)
    return workers


def _is_daemon(process: psutil.Process) -> bool:
    return "services.transform.driver.worker_daemon" in process.cmdline()
