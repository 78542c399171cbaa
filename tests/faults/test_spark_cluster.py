"""Through spark-submit on a standalone cluster: lost workers, a standby driver, the end of all processes."""

import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from stack.ports import free_port
from stack.process_groups import family_of
from stack.processes import Child
from stack.services import Service
from tests.faults.conftest import Ground
from tests.fixtures.fix_postgres import Database
from tests.fixtures.scenes import Scene, gone, ready
from tests.fixtures.spark_cluster import Cluster
from tests.fixtures.writer import event, eventually, make_topics, produce

pytestmark = pytest.mark.full

PLACE = "writer.before_commit"
EVENTS = int(os.environ.get("ONRAMP_CLUSTER_EVENTS", "20000"))
PARTITIONS = 4
#: A busy machine starts an executor and its Python worker in this time.
PATIENCE = 240.0


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


def test_a_worker_killed_during_its_task_costs_a_repeat_and_nothing_else(
    cluster: Cluster, submitted: Scene
) -> None:
    """Events of one partition are one task; the worker that runs it is killed before its commit."""
    submitted.produce(*(event(f"{submitted.name}-{n}", submitted.name, n=n) for n in range(300)))
    submitted.accepted = 300
    submitted.writer(PLACE, wait=False, idle_in_transaction_ms=600_000)
    submitted.paused_at(PLACE)
    [worker] = [each for each in cluster.workers if _session(submitted) in _ports(each)]
    worker.kill()
    assert submitted.landed() == 0
    eventually(lambda: _goes_on(submitted), PATIENCE)
    submitted.all_landed_once()


def _goes_on(scene: Scene) -> bool:
    """Release the repeated task, which stops at the same failpoint; return whether its events landed."""
    scene.go_on(PLACE)
    return scene.landed() == scene.accepted


def _session(scene: Scene) -> int:
    """Return the port of the task that has an open transaction."""
    query = (
        "SELECT client_port FROM pg_stat_activity WHERE datname = current_database() "
        "AND application_name LIKE 'onramp-writer%%' AND state = 'idle in transaction'"
    )
    [(port,)] = scene.ask(query)
    return int(port)


def _ports(worker: Child) -> set[int]:
    """Return the ports of all connections of a Spark worker's executors."""
    return {each.laddr.port for each in _connections(family_of(psutil.Process(worker.pid))) if each.laddr}


def _connections(*families: set[psutil.Process]) -> list[Any]:
    connections: list[Any] = []
    for process in set().union(*families):
        with suppress(psutil.NoSuchProcess):  # a zombie counts as such
            connections += process.net_connections()
    return connections


@pytest.mark.parametrize(
    ("options", "before", "after"),
    [
        # The first application takes every core, and the standby has no executor.
        ({}, [2, 0], [2]),
        ({"spark.cores.max": "1"}, [1, 1], [1]),
    ],
)
def test_a_standby_takes_over_from_a_driver_that_is_killed_during_a_task(
    options: dict[str, str], before: list[int], after: list[int], cluster: Cluster, submitted: Scene
) -> None:
    cluster.conf |= options
    active = submitted.writer(PLACE, standby=True)
    eventually(lambda: _says(active, "consuming"), PATIENCE)
    standby = submitted.writer(standby=True)
    eventually(lambda: _says(standby, "standby"), PATIENCE)
    eventually(lambda: cluster.cores() == before, PATIENCE)
    submitted.send(300)
    submitted.paused_at(PLACE)
    assert submitted.landed() == 0
    active.kill()  # the JVM and the driver; the executors end when the master notices
    eventually(lambda: _says(standby, "consuming"), PATIENCE)
    submitted.all_landed_once(PATIENCE)
    eventually(lambda: cluster.cores() == after, PATIENCE)
    submitted.send(300)
    submitted.all_landed_once(PATIENCE)

    third = submitted.writer(standby=True)
    eventually(lambda: _says(third, "standby"), PATIENCE)
    families = [family_of(psutil.Process(each.pid)) for each in (standby, third)]
    for service in (third, standby):
        os.kill(service.pid, signal.SIGTERM)
    eventually(lambda: all(map(gone, families)), 60)
    eventually(lambda: not any(cluster.executors()), 60)


def _says(service: Service, status: str) -> bool:
    return ready(service)[1]["status"] == status


def test_executors_run_with_the_environment_of_an_archive_and_reach_two_ports_of_the_driver(
    cluster: Cluster, submitted: Scene
) -> None:
    """Commands and options are those of docs/production.md."""
    cluster.send_environment()
    ports = {f"spark.driver.{name}": free_port() for name in ("port", "blockManager.port")}
    cluster.conf |= {"spark.driver.bindAddress": "0.0.0.0"} | {name: str(p) for name, p in ports.items()}
    submitted.send(300)
    service = submitted.writer()
    submitted.all_landed_once()
    driver = _connections(family_of(psutil.Process(service.pid)))
    listening = {each.laddr.port for each in driver if each.status == psutil.CONN_LISTEN}
    reached = {each.raddr.port for each in _connections(*cluster.executors()) if each.raddr} & listening
    assert reached == set(ports.values())
    programs = cluster.programs()
    assert "./environment/bin/python" in programs, programs
    assert sys.executable not in programs


def test_executors_share_the_partitions_of_a_topic(cluster: Cluster, submitted: Scene) -> None:
    """With `-s`, prints the CPU seconds of driver and executors, for docs/production.md."""
    make_topics(submitted.bootstrap, submitted.topic, partitions=PARTITIONS)
    for executors in (1, 2):
        cluster.conf["spark.cores.max"] = str(executors)
        service = submitted.writer()
        _produce(submitted, 1_000)  # the first batch starts the Python workers
        submitted.all_landed_once(PATIENCE)
        before, began = _cpu_seconds(cluster, service), time.monotonic()
        _produce(submitted, EVENTS)
        eventually(lambda: submitted.landed() == submitted.accepted, PATIENCE * 2)
        seconds = time.monotonic() - began
        used = [now - then for now, then in zip(_cpu_seconds(cluster, service), before, strict=True)]
        each = ", ".join(f"{cpu * 1_000_000 / EVENTS:.1f}" for cpu in used)
        sys.stdout.write(f"{executors} executors: {each} CPU s per million rows; {seconds:.0f} s\n")
        assert sum(cpu > 0.05 for cpu in used[1:]) == executors
        submitted.all_landed_once(PATIENCE)
        service.kill()
        eventually(lambda: not cluster.cores(), PATIENCE)


def _produce(scene: Scene, count: int) -> None:
    """Put events of 250 bytes on Kafka, the same number in each partition."""
    for partition in range(PARTITIONS):
        numbers = range(scene.accepted + partition, scene.accepted + count, PARTITIONS)
        values = [event(f"{scene.name}-{n}", scene.name, n=n, text="x" * 95) for n in numbers]
        produce(scene.bootstrap, scene.topic, values, partition=partition)
    scene.accepted += count


def _cpu_seconds(cluster: Cluster, service: Service) -> list[float]:
    """Return the CPU seconds of the driver with its JVM, and those of the executors of each worker."""
    families = [family_of(psutil.Process(service.pid)), *cluster.executors()]
    return [sum(sum(process.cpu_times()[:4]) for process in family) for family in families]
