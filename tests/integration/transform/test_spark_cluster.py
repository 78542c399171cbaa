"""The transform service through spark-submit: on a cluster that loses a worker, and stopped by its JVM."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import orjson
import psutil
import pytest

from shared.errors import TRANSFORM_TIMEOUT
from shared.registry.transforms import digest_of_source
from stack import services
from stack.process_groups import family_of
from stack.processes import Child
from stack.registry import OwnRegistry
from stack.services import ROOT, Service
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import Database
from tests.fixtures.scenes import gone
from tests.fixtures.spark_cluster import Cluster
from tests.fixtures.transform_service import (
    LOOPING_SOURCE,
    SOURCE,
    audited,
    document_of,
    entries_of,
    python_workers,
)
from tests.fixtures.transforms import TransformScene
from tests.fixtures.writer import event, eventually, produce

pytestmark = pytest.mark.full

_SECONDS = 180.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster", workers=2) as cluster:
        yield cluster


@pytest.fixture
def scene(kafka: HasBootstrap) -> TransformScene:
    return TransformScene.make(kafka.bootstrap)


@contextmanager
def started(service: Service) -> Iterator[Service]:
    service.start()
    try:
        service.wait_ready()
        yield service
    finally:
        service.kill()


def numbers_of(scene: TransformScene, name: str, version: int | None = None) -> list[int]:
    """Return the number of the event of each output of a transform, sorted."""
    documents = [orjson.loads(each.value or b"{}") for each in scene.outputs()]
    return sorted(
        each["payload"]["n"]
        for each in documents
        if each["metadata"]["id"].startswith(f"{name}:")
        and (version is None or each["payload"].get("version") == version)
    )


def test_a_lost_worker_costs_a_repeat_of_its_tasks_and_nothing_else(
    cluster: Cluster, scene: TransformScene
) -> None:
    own = OwnRegistry(scene.bootstrap, document_of(scene, lanes=2))
    with started(cluster.transform(scene.bootstrap, own.env)):
        for partition in (0, 1):
            scene.send([2, 0, None] * 100, partition=partition)
        eventually(lambda: scene.offsets() == {0: 300, 1: 300}, _SECONDS)
        cluster.workers[0].kill()  # and its executor with the Python workers
        for partition in (0, 1):
            scene.send([2, 0, None] * 100, partition=partition, first=300)
        eventually(lambda: scene.offsets() == {0: 600, 1: 600}, _SECONDS)

    for partition in (0, 1):
        counts = {"dropped": 200, "parked": 200, "emitted": 200, "outputs": 400}
        assert scene.counts(partition) == counts
    values = [each.value for each in scene.outputs()]
    assert len(values) == len(set(values)) == 2 * 2 * 200
    assert len(scene.parked()) == 2 * 200


class Load:
    """Sends events to both partitions, until it is stopped."""

    def __init__(self, scene: TransformScene) -> None:
        self._scene = scene
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send)
        #: Numbers of the sent events; even ones are on partition 0.
        self.sent = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _send(self) -> None:
        while not self._stop.wait(0.1):
            for partition in (0, 1):
                numbers = range(self.sent + partition, self.sent + 10, 2)
                values = [event(f"e-{n}", "source", n=n, outputs=1) for n in numbers]
                produce(self._scene.bootstrap, self._scene.source, values, partition=partition)
            self.sent += 10


def test_a_second_version_that_loops_on_one_event_parks_it_alone_during_load_and_kills(
    cluster: Cluster, scene: TransformScene, migrated: Database
) -> None:
    """Kills: a Python worker of Spark, a worker of the cluster with its executor, and the driver."""
    other = f"{scene.name}_other"
    document = document_of(scene, SOURCE, lanes=2)
    document["transforms"][other] = document["transforms"][scene.name]
    own = OwnRegistry(scene.bootstrap, document)
    second = LOOPING_SOURCE.replace('"k": k', '"k": k, "version": 2')
    service = cluster.transform(scene.bootstrap, own.env)
    with started(service), Load(scene) as load:

        def catches_up(name: str) -> None:
            """Wait until each event that is sent now has its output, while others follow."""
            sent = eventually(lambda: load.sent)
            eventually(lambda: sum(0 <= n < sent for n in numbers_of(scene, name)) >= sent, _SECONDS)

        catches_up(scene.name)
        own.put(_deployed(document, scene.name, second))
        eventually(lambda: numbers_of(scene, scene.name, version=2), _SECONDS)
        looping = scene.send_payload(n=-1, outputs=1, loops=True)
        eventually(scene.parked, _SECONDS)
        catches_up(other)

        eventually(lambda: _workers_of(cluster))[0].kill()
        catches_up(other)
        cluster.workers[0].kill()
        catches_up(other)
        service.kill()
        service.start()
        service.wait_ready()
        catches_up(scene.name)
    with started(service):
        for name in (scene.name, other):
            eventually(lambda name=name: _lag_of(service, name) == 0, _SECONDS)

    (parked,) = scene.parked()
    assert (parked.value, parked.error["code"]) == (looping, TRANSFORM_TIMEOUT.code)
    every = list(range(load.sent))
    assert numbers_of(scene, scene.name) == every
    assert numbers_of(scene, other) == [-1, *every]
    counts = [scene.counts(partition) for partition in (0, 1)]
    assert sum(each["emitted"] for each in counts) == load.sent
    assert sum(each.get("parked", 0) for each in counts) == 1
    report = audited(scene, migrated, other)
    assert report.findings == []
    assert {each.transform for each in report.transforms} == {scene.name, other}


def _deployed(document: dict[str, Any], name: str, source: str) -> dict[str, Any]:
    entry = {**document["transforms"][name], "source": source, "digest": digest_of_source(source)}
    return {**document, "transforms": {**document["transforms"], name: entry}}


def _lag_of(service: Service, name: str) -> int:
    # A service that has just started has no entry yet.
    lag = entries_of(service).get(name, {}).get("lag")
    return sum(lag.values()) if lag else -1


def _workers_of(cluster: Cluster) -> list[psutil.Process]:
    return [each for worker in cluster.workers for each in python_workers(worker.pid)]


def test_sigterm_to_the_jvm_of_spark_submit_ends_the_service_and_the_next_one_goes_on(
    scene: TransformScene, tmp_path: Path
) -> None:
    own = OwnRegistry(scene.bootstrap, document_of(scene, lanes=2))
    service = services.transform(
        bootstrap=scene.bootstrap, dsn="", log=tmp_path / "transform.log", env=own.env
    )
    submit = [
        str(Path(sys.executable).with_name("spark-submit")),
        *("--master", "local[4]", "--driver-memory", "512m"),
        str(ROOT / "deploy" / "submit_transform.py"),
    ]
    command = service.child.command
    variables = {**command.env, "PYSPARK_PYTHON": sys.executable}
    service.child = Child(replace(command, argv=submit, env=variables))
    scene.send([1] * 10)
    with started(service):
        eventually(lambda: len(scene.outputs()) == 10)
        jvm = psutil.Process(service.pid)
        assert "SparkSubmit" in " ".join(jvm.cmdline())
        family = family_of(jvm)
        os.kill(jvm.pid, signal.SIGTERM)
        eventually(lambda: gone(family), 30)
    scene.send([1] * 10, first=10)
    with started(service):
        eventually(lambda: len(scene.outputs()) == 20)
    assert scene.counts() == {"emitted": 20, "outputs": 20}
