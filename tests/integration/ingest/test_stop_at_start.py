"""SIGTERM while a service starts: it ends at once with 0, also as process 1 of a container."""

import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from stack.ports import LOOPBACK, free_port
from stack.services import ROOT
from tests.fixtures.writer import eventually

#: Imports `__main__`, whose first line is the handler, and names the packages that this takes.
PACKAGES = (
    "import sys; import services.{0}.__main__; print(*sorted({{n.split('.')[0] for n in sys.modules}}))"
)


@pytest.mark.parametrize("service", ["ingest", "admin"])
def test_the_handler_is_set_before_packages_are_imported(service: str) -> None:
    program = [sys.executable, "-c", PACKAGES.format(service)]
    answer = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(answer.stdout.split()) - sys.stdlib_module_names
    assert {"services", "shared"} <= loaded
    assert not loaded & {"uvicorn", "fastapi", "pydantic", "aiokafka", "psycopg", "pyarrow"}


@pytest.mark.parametrize("service", ["ingest", "admin"])
def test_sigterm_while_packages_are_imported_is_a_success(service: str) -> None:
    process = subprocess.Popen([sys.executable, "-m", f"services.{service}"], cwd=ROOT)
    try:
        eventually(lambda: _catches_sigterm(process.pid), 60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


def test_sigterm_while_the_gateway_waits_for_the_registry_ends_it(tmp_path: Path) -> None:
    admin_port, log = free_port(), tmp_path / "gateway.log"
    # It accepts connections and answers nothing: the poll of the registry lasts until its timeout.
    kafka = socket.create_server((LOOPBACK, 0))
    settings = {
        "ONRAMP_KAFKA_BOOTSTRAP": f"{LOOPBACK}:{kafka.getsockname()[1]}",
        "ONRAMP_INGEST_PORT": str(free_port()),
        "ONRAMP_INGEST_ADMIN_PORT": str(admin_port),
    }
    with kafka, log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "services.ingest"],
            cwd=ROOT,
            env=os.environ | settings,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            eventually(lambda: _answers(admin_port), 60)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.wait()
    assert "Started server process" in log.read_text()
    assert "Application startup complete" not in log.read_text()


def _catches_sigterm(pid: int) -> bool:
    """Return whether a process has a handler of SIGTERM, as the kernel says."""
    status = Path(f"/proc/{pid}/status").read_text()
    [caught] = [line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")]
    return bool(int(caught, 16) & (1 << (signal.SIGTERM - 1)))


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/healthz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, TimeoutError):
        return False
