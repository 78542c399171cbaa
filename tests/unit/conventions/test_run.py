"""`python -m tests.run` reports the CPU time of tests with their processes, and enforces the budget."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import run
from tests.run import Cost, lines_of, over_budget
from tests.unit.conventions.tree import ROOT

SECONDS = 0.3
#: Its grandchild loses its parent, takes that much CPU time, and ends before it does.
ORPHAN = f"""
import os, time
until, held = os.pipe()
if os.fork():
    os.wait()
    os.close(held)
    os.read(until, 1)
    os._exit(7)
if not os.fork():
    while time.process_time() < {SECONDS}: pass
os._exit(0)
"""


def cost(loops: float) -> Cost:
    return Cost(
        tests=1,
        wall=2.0,
        cpu=loops * 1.5,
        loop=1.5,
        files={"tests/unit/shared/test_a.py": (1.0, 2.0, 17, 120.0)},
    )


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")
def test_the_cpu_time_of_an_orphan_counts() -> None:
    program = (
        "import sys; from tests.run import *; print(*run_with_orphans([sys.executable, '-c', sys.argv[1]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, ORPHAN], cwd=ROOT, capture_output=True, text=True, check=True
    )
    code, cpu = done.stdout.splitlines()[-1].split()
    assert (int(code), float(cpu) >= SECONDS) == (7, True), done.stdout


def test_a_file_costs_what_its_processes_cost(tmp_path: Path) -> None:
    busy = f"while time.process_time() < {SECONDS}: pass"
    (tmp_path / "test_idle.py").write_text("def test_idle(): pass\n")
    (tmp_path / "test_busy.py").write_text(
        "import subprocess, sys\n"
        f"def test_busy(): subprocess.run([sys.executable, '-c', 'import time\\n{busy}'], check=True)\n"
    )
    report = tmp_path / "cost.json"
    command = [sys.executable, "-m", "pytest", "-p", "tests.fixtures.fix_cost", f"--cost={report}", "-q"]
    subprocess.run(
        [*command, f"--rootdir={tmp_path}", "-c", "/dev/null", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    measured = json.loads(report.read_text("utf-8"))
    assert measured["tests"] == 2
    assert measured["files"]["test_busy.py"][0] >= SECONDS > measured["files"]["test_idle.py"][0]


def test_a_suite_above_its_budget_warns_and_far_above_it_fails() -> None:
    assert over_budget(cost(100), 100) == ("", False)
    for loops, fails in ((101, False), (150, False), (151, True)):
        problem, failed = over_budget(cost(loops), 100)
        assert f"took {loops} times the calibration loop; its budget is 100" in problem
        assert failed is fails


def test_the_report_names_folders_and_slowest_files() -> None:
    text = "\n".join(lines_of(cost(100)))
    assert "1 tests in 2 s: 150 CPU seconds, 100 times 20 million additions (1.50 s here)" in text
    assert "1.0       1  tests/unit/shared" in text
    assert "2.0     1.0  tests/unit/shared/test_a.py" in text
    assert "120 MB in a process of pytest, after tests/unit/shared/test_a.py" in text
    assert "at most 17 open files" in text


def test_every_budget_is_a_number_of_loops() -> None:
    assert all(1 < budget < 10_000 for budget in run.budgets().values())
