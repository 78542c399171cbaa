"""The lake service through spark-submit on a cluster: its rows, and the end of all its processes."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from stack.process_groups import family_of
from stack.registry import OwnRegistry
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.lake import LakeScene
from tests.fixtures.running_part import started
from tests.fixtures.scenes import gone
from tests.fixtures.spark_cluster import Cluster
from tests.fixtures.writer import eventually

pytestmark = pytest.mark.full

#: A busy machine starts an executor and its Python worker in this time.
_SECONDS = 240.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster", workers=1) as cluster:
        yield cluster


@pytest.mark.parametrize(
    ("place", "python"),
    [("lake.before_commit", sys.executable), ("lake.committed", "./environment/bin/python")],
)
def test_rows_are_exact_although_sigterm_ends_the_jvm_of_spark_submit_during_a_batch(
    place: str, python: str, cluster: Cluster, kafka: HasBootstrap, tmp_path: Path
) -> None:
    if python != sys.executable:
        cluster.send_environment()
    scene = LakeScene(kafka.bootstrap, tmp_path / "lake")
    own = OwnRegistry(scene.bootstrap, scene.document())
    quick = own.env | {"ONRAMP_LAKE_BATCH_SECONDS": "0.5"}
    pause = {"ONRAMP_FAILPOINTS": f"{place}=pause", "ONRAMP_FAILPOINT_DIR": str(tmp_path)}
    flag = tmp_path / place

    def settles(count: int) -> bool:
        """Release the task that stops at `place`; return whether all events are settled."""
        flag.unlink(missing_ok=True)
        positions = [each for key, each in scene.known_positions().items() if key.table == scene.name]
        return sum(each.next_offset for each in positions) == count

    def send(first: int) -> None:
        for partition in (0, 1):
            scene.send(200, first=first, partition=partition)

    send(0)
    with started(cluster.lake(scene.bootstrap, scene.folder, quick | pause)) as service:
        eventually(lambda: settles(400), _SECONDS)
        scene.has(400)
        send(200)
        eventually(flag.exists, _SECONDS)
        assert python in cluster.programs()
        jvm = psutil.Process(service.pid)
        assert "SparkSubmit" in " ".join(jvm.cmdline())
        family = family_of(jvm)
        os.kill(jvm.pid, signal.SIGTERM)
        eventually(lambda: gone(family), 60)
        eventually(lambda: not any(cluster.executors()), 60)
    assert (scene.count() > 400) == (place == "lake.committed")
    send(400)
    with started(cluster.lake(scene.bootstrap, scene.folder, quick)):
        eventually(lambda: settles(1200), _SECONDS)
        scene.has(1200)
