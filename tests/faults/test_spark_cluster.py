"""Through spark-submit on a standalone cluster, where a worker is lost with its executor."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from stack.services import Service
from tests.faults.conftest import Ground
from tests.fixtures.fix_postgres import Database
from tests.fixtures.scenes import Scene
from tests.fixtures.spark_cluster import Cluster

pytestmark = pytest.mark.full


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
        yield Scene(
            start_writer=start,
            bootstrap=ground.kafka.bootstrap,
            dsn=database.dsn,
            gateway=ground.gateway,
            folder=tmp_path,
        )
    finally:
        for service in started:
            service.kill()


def test_a_lost_worker_costs_a_repeat_of_its_tasks_and_nothing_else(
    cluster: Cluster, submitted: Scene
) -> None:
    submitted.send(300)
    submitted.writer()
    submitted.all_landed_once()
    cluster.workers[0].kill()  # and its executor with the Python workers
    submitted.send(300)
    submitted.all_landed_once()
