"""SIGTERM to the JVM of spark-submit, which is the writer's parent there: it ends, and nothing is lost."""

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from stack import services
from stack.process_groups import family_of
from stack.processes import Child
from stack.services import ROOT, Service
from tests.faults.conftest import Ground
from tests.fixtures.fix_postgres import Database
from tests.fixtures.scenes import Scene, gone
from tests.fixtures.writer import eventually

pytestmark = pytest.mark.full


@pytest.fixture
def submitted(ground: Ground, database: Database, tmp_path: Path) -> Iterator[Scene]:
    """A scene whose writers are started by spark-submit."""
    started: list[Service] = []

    def start(bootstrap: str, dsn: str, env: Mapping[str, str], *, wait: bool = True) -> Service:
        log = tmp_path / f"submitted-{len(started)}.log"
        service = services.writer(bootstrap=bootstrap, dsn=dsn, log=log, env=env)
        submit = [
            str(Path(sys.executable).with_name("spark-submit")),
            *("--master", "local[2]", "--driver-memory", "1g"),
            str(ROOT / "services" / "writer" / "__main__.py"),
        ]
        command = service.child.command
        variables = {**command.env, "PYSPARK_PYTHON": sys.executable}
        service.child = Child(replace(command, argv=submit, env=variables))
        started.append(service)
        service.start()
        if wait:
            service.wait_ready()
        return service

    scene = Scene(
        start_writer=start,
        bootstrap=ground.kafka.bootstrap,
        dsn=database.dsn,
        gateway=ground.gateway,
        folder=tmp_path,
    )
    try:
        yield scene
    finally:
        for service in started:
            service.kill()


def test_f20_sigterm_to_the_jvm_of_spark_submit_ends_the_writer_and_loses_nothing(
    submitted: Scene,
) -> None:
    place = "writer.before_commit"
    submitted.send(50)
    service = submitted.writer(place, wait=False)
    submitted.paused_at(place)
    jvm = psutil.Process(service.pid)
    assert "SparkSubmit" in " ".join(jvm.cmdline())
    family = family_of(jvm)
    os.kill(jvm.pid, signal.SIGTERM)
    eventually(lambda: gone(family), 30)
    eventually(lambda: not submitted.sessions(), 15)
    assert (submitted.landed(), submitted.settled()) == (0, {})
    submitted.writer()
    submitted.all_landed_once()
