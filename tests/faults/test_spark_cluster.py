"""Through spark-submit on a standalone cluster: a lost worker and SIGTERM to its JVM lose nothing."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest

from stack.families import family_of
from stack.services import Service
from tests.faults.conftest import Ground
from tests.fixtures.fix_postgres import Database
from tests.fixtures.scenes import Scene, gone
from tests.fixtures.spark_cluster import Cluster
from tests.fixtures.writer import eventually


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster", workers=2) as cluster:
        yield cluster


@pytest.fixture
def submitted(cluster: Cluster, ground: Ground, database: Database, tmp_path: Path) -> Iterator[Scene]:
    """A scene whose writers are submitted."""
    started: list[Service] = []

    def start(bootstrap: str, dsn: str, env: Mapping[str, str], *, wait: bool = True) -> Service:
        service = cluster.writer(bootstrap, dsn, env)
        started.append(service)
        service.start()
        if wait:
            service.wait_ready()
        return service

    try:
        yield Scene(start, ground.kafka.bootstrap, database.dsn, ground.gateway, tmp_path)
    finally:
        for service in started:
            service.kill()


def test_a_lost_worker_and_sigterm_to_its_jvm_lose_nothing(cluster: Cluster, submitted: Scene) -> None:
    submitted.send(300)
    writer = submitted.writer()
    submitted.all_landed_once()
    cluster.workers[0].kill()  # and its executor with the Python workers
    submitted.send(300)
    submitted.all_landed_once()
    everything = family_of(psutil.Process(writer.pid))
    assert len(everything) > 1  # spark-submit's JVM and the driver that it runs
    writer.child.ask_to_stop()
    eventually(lambda: gone(everything))
    eventually(lambda: not submitted.sessions())
    submitted.send(100)
    submitted.writer()
    submitted.all_landed_once()
