# ruff: noqa: T201 - a program for people
"""Run the test suite, then report its CPU seconds by folder and its slowest files against the budget.

`make test` runs this. The measure is CPU time, not wall time, because a test waits for brokers, servers and
JVMs whose CPU time is what two cores run out of. It is divided by the CPU time of a fixed loop in the same
run, because the machines of CI differ by a factor of two. Nothing in a test depends on it.
"""

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

ROOT: Final = Path(__file__).resolve().parents[1]
BUDGET: Final = ROOT / "tests" / "budget.toml"
ADDITIONS: Final = 20_000_000
SLOWEST: Final = 20
#: Above this multiple of the budget the run fails; between the two it warns.
FAILS_ABOVE: Final = 1.5
#: What the tests leave behind has so long to end.
_LAST_SECONDS: Final = 5.0
_PR_SET_CHILD_SUBREAPER: Final = 36  # prctl(2)


@dataclass(frozen=True)
class Cost:
    """The cost of a run of the suite; `loop` is the CPU seconds of 20 million additions."""

    tests: int
    wall: float
    cpu: float
    loop: float
    #: Of each file: CPU and wall seconds; open files and MB of its process afterwards.
    files: Mapping[str, tuple[float, float, int, float]]

    @property
    def loops(self) -> float:
        """CPU time in units of the calibration loop."""
        return self.cpu / self.loop


def main() -> int:
    """Run pytest with the arguments behind `--`, print its cost, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--budget", choices=sorted(budgets()), help="fail above 1.5 times this budget")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest, behind --")
    given = parser.parse_args()
    before = calibrate()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "cost.json"
        started = time.monotonic()
        code, cpu = run_with_orphans([sys.executable, "-m", "pytest", *given.pytest, f"--cost={report}"])
        wall = time.monotonic() - started
        measured = json.loads(report.read_text("utf-8")) if report.exists() else {"tests": 0, "files": {}}
    cost = Cost(measured["tests"], wall, cpu, (before + calibrate()) / 2, measured["files"])
    print(*lines_of(cost), sep="\n", flush=True)
    if code or not given.budget:
        return code
    problem, failed = over_budget(cost, budgets()[given.budget])
    if problem:
        print(f"\n{'FAILED' if failed else 'WARNING'}: {problem}", flush=True)
    return int(failed)


def budgets() -> dict[str, float]:
    """Return each suite's budget, in units of the calibration loop."""
    return {name: float(each) for name, each in tomllib.loads(BUDGET.read_text("utf-8")).items()}


def calibrate() -> float:
    """Return the CPU seconds of 20 million additions now."""
    started = time.process_time()
    number = 0
    for _ in range(ADDITIONS):
        number += 1  # noqa: SIM113 - the loop is what is timed
    return time.process_time() - started


def run_with_orphans(command: Sequence[str]) -> tuple[int, float]:
    """Run a command; return its exit code, and the CPU seconds of it and all that it started.

    A process whose parent ends becomes a child of this one (Linux), so that its CPU time counts too.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    process = subprocess.Popen(command, cwd=ROOT)
    code, cpu, until = None, 0.0, 0.0
    while True:
        try:
            pid, status, usage = os.wait4(-1, 0 if code is None else os.WNOHANG)
        except KeyboardInterrupt:
            continue  # pytest has the signal too, and ends.
        except ChildProcessError:
            break
        if pid == 0 and time.monotonic() > until:
            break
        if pid == 0:
            time.sleep(0.02)
            continue
        cpu += usage.ru_utime + usage.ru_stime
        if pid == process.pid:
            code = process.returncode = os.waitstatus_to_exitcode(status)
            until = time.monotonic() + _LAST_SECONDS
    for left in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):  # a zombie counts as such
            print(f"left behind by the tests: process {left.pid}: {' '.join(left.cmdline())[:200]}")
    assert code is not None
    return code, cpu


def lines_of(cost: Cost) -> list[str]:
    """Return the report: the totals, each folder, and the slowest files."""
    folders: dict[str, float] = defaultdict(float)
    for file, (cpu, *_) in cost.files.items():
        folders["/".join(Path(file).parent.parts[:3])] += cpu
    folders["collection, and processes that left their tests"] = cost.cpu - sum(folders.values())
    by_cpu = sorted(folders.items(), key=lambda each: -each[1])
    slowest = sorted(cost.files.items(), key=lambda each: -each[1][1])[:SLOWEST]
    files = max((each[2] for each in cost.files.values()), default=0)
    memory, largest = max(((each[3], name) for name, each in cost.files.items()), default=(0.0, "no file"))
    total = f"{cost.tests:,} tests in {cost.wall:,.0f} s: {cost.cpu:,.0f} CPU seconds"
    unit = f"{cost.loops:,.0f} times {ADDITIONS // 1_000_000} million additions ({cost.loop:.2f} s here)"
    return [
        f"\n{total}, {unit}",
        f"\n{'CPU s':>8} {'loops':>7}  folder",
        *(f"{cpu:8.1f} {cpu / cost.loop:7.0f}  {name}" for name, cpu in by_cpu),
        f"\n{'wall s':>8} {'CPU s':>7}  the {len(slowest)} slowest files",
        *(f"{wall:8.1f} {cpu:7.1f}  {name}" for name, (cpu, wall, *_) in slowest),
        f"\nat most {files:,} open files and {memory:,.0f} MB in a process of pytest, after {largest}",
    ]


def over_budget(cost: Cost, budget: float) -> tuple[str, bool]:
    """Return the fault of the cost, or an empty string; and whether it fails the run."""
    if cost.loops <= budget:
        return "", False
    problem = (
        f"the suite took {cost.loops:,.0f} times the calibration loop; its budget is {budget:,.0f} "
        f"({BUDGET.relative_to(ROOT)}). Make the slowest files above cheaper, or mark rare and heavy "
        "tests `full`."
    )
    return problem, cost.loops > FAILS_ABOVE * budget


if __name__ == "__main__":
    sys.exit(main())
