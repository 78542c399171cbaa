"""The JVM of spark-submit is the parent of the driver: SIGTERM ends both, and its settings have priority."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import httpx2
import psutil
import pytest

from shared.errors import KAFKA_UNAVAILABLE
from stack import services
from stack.process_groups import family_of
from stack.processes import Child
from stack.services import ROOT, Service
from tests.faults.conftest import Ground
from tests.fixtures.fix_postgres import Database
from tests.fixtures.scenes import Scene, gone
from tests.fixtures.writer import eventually

pytestmark = pytest.mark.full


SUBMIT = [
    str(Path(sys.executable).with_name("spark-submit")),
    "--master",
    "local[2]",
    "--driver-memory",
    "1g",
]
#: Ports that nothing listens on.
NOWHERE = {"kafka": "127.0.0.1:1", "postgres": "postgresql://127.0.0.1:1/nowhere"}
#: Prints the settings of the context that a driver makes.
PRINT_SETTINGS = """
from shared.spark.spark_jobs import SparkJobs, SparkSettings

jobs = SparkJobs(SparkSettings(app_name="a", master="", driver_memory="", worker_daemon="", is_fair=True))
for name in ("spark.speculation", "spark.scheduler.mode", "spark.python.worker.reuse"):
    print("setting", name, jobs._context.getConf().get(name))
"""


def submit(service: Service, script: str) -> None:
    """Let spark-submit start the service."""
    command = service.child.command
    variables = {**command.env, "PYSPARK_PYTHON": sys.executable}
    service.child = Child(replace(command, argv=[*SUBMIT, str(ROOT / script)], env=variables))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """A function that starts writers by spark-submit."""
    started: list[Service] = []

    def start(bootstrap: str, dsn: str, env: Mapping[str, str], *, wait: bool = True) -> Service:
        log = tmp_path / f"submitted-{len(started)}.log"
        service = services.writer(bootstrap=bootstrap, dsn=dsn, log=log, env=env)
        submit(service, "services/writer/__main__.py")
        started.append(service)
        service.start()
        if wait:
            service.wait_ready()
        return service

    try:
        yield start
    finally:
        for service in started:
            service.kill()


@pytest.fixture
def submitted(start: Callable[..., Service], ground: Ground, database: Database, tmp_path: Path) -> Scene:
    """A scene whose writers are started by spark-submit."""
    return Scene(
        start_writer=start,
        bootstrap=ground.kafka.bootstrap,
        dsn=database.dsn,
        gateway=ground.gateway,
        folder=tmp_path,
    )


@pytest.mark.parametrize("down", ["nothing", "kafka", "postgres"])
def test_sigterm_to_the_jvm_of_spark_submit_ends_a_driver_without_work(
    down: str, start: Callable[..., Service], ground: Ground, database: Database
) -> None:
    bootstrap = NOWHERE["kafka"] if down == "kafka" else ground.kafka.bootstrap
    dsn = NOWHERE["postgres"] if down == "postgres" else database.dsn
    topics = {"ONRAMP_WRITER_TOPICS": r"events\.of_no_event_type"}
    service = start(bootstrap, dsn, topics, wait=down == "nothing")
    jvm = psutil.Process(service.pid)
    # The context is there: it reports its usage.
    eventually(lambda: has_context(service.port), 120)
    family = family_of(jvm)
    os.kill(jvm.pid, signal.SIGTERM)
    eventually(lambda: gone(family), 30)


@pytest.mark.parametrize("down", ["nothing", "kafka"])
def test_sigterm_to_the_jvm_of_spark_submit_ends_a_lake_service_without_work(
    down: str, ground: Ground, tmp_path: Path
) -> None:
    bootstrap = NOWHERE["kafka"] if down == "kafka" else ground.kafka.bootstrap
    folder, log, env = tmp_path / "lake", tmp_path / "lake.log", {"ONRAMP_LAKE_ALL": "false"}
    service = services.lake(bootstrap=bootstrap, folder=folder, log=log, env=env)
    submit(service, "deploy/submit_lake.py")
    service.start()
    try:
        # The context is there: the first session begins after it.
        expected = "" if down == "nothing" else KAFKA_UNAVAILABLE.code
        eventually(lambda: trouble_of(service.port, default="starting").partition(":")[0] == expected, 120)
        family = family_of(psutil.Process(service.pid))
        os.kill(service.pid, signal.SIGTERM)
        eventually(lambda: gone(family), 30)
    finally:
        service.kill()


def trouble_of(port: int, default: str) -> str:
    """Return the reason why the service does not work, `default` if it does not answer."""
    try:
        return str(httpx2.get(f"http://127.0.0.1:{port}/status", timeout=5).json()["trouble"])
    except httpx2.TransportError:
        return default


def has_context(port: int) -> bool:
    try:
        page = httpx2.get(f"http://127.0.0.1:{port}/metrics", timeout=5).text
    except httpx2.TransportError:
        return False
    return any(
        line.startswith("onramp_writer_jvm_heap_limit_bytes ") and float(line.split()[1]) > 0
        for line in page.splitlines()
    )


def test_settings_of_the_submission_have_priority(tmp_path: Path) -> None:
    script = tmp_path / "print_settings.py"
    script.write_text(PRINT_SETTINGS)
    given = ["--conf", "spark.speculation=true", "--conf", "spark.scheduler.mode=FIFO"]
    answer = subprocess.run(
        [*SUBMIT, *given, str(script)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert [line for line in answer.stdout.splitlines() if line.startswith("setting")] == [
        "setting spark.speculation true",
        "setting spark.scheduler.mode FIFO",
        "setting spark.python.worker.reuse true",
    ], answer.stderr


def test_sigterm_to_the_jvm_of_spark_submit_ends_the_writer_and_loses_nothing(
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
