"""Process metrics, compared with the operating system's figures for this process and its children."""

import asyncio
import math
import os
import resource
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path
from typing import Any

import psutil
import pytest
from prometheus_client import CollectorRegistry

from shared import process_metrics
from shared.process_metrics import ProcessMetrics, Usage, descendants, usage
from shared.version import VERSION
from tests.unit.conventions.tree import ROOT


class Shown:
    """The metrics of a registry of this test."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.metrics = ProcessMetrics(self.registry)

    def of(self, name: str, kind: str = "test") -> float | None:
        return self.registry.get_sample_value(f"onramp_{name}", {"process": kind})


def used(pid: int, cpu: float, open_files: int = 1, max_files: float = 9) -> Usage:
    """Return the usage of a process with this number."""
    process = psutil.Process({1: os.getpid(), 2: os.getppid(), 3: 1}.get(pid, pid))
    return Usage(
        process=process,
        started=pid,
        cpu_seconds=cpu,
        resident_bytes=7,
        open_files=open_files,
        max_files=max_files,
    )


@pytest.fixture
def shown() -> Shown:
    return Shown()


def test_this_process_is_shown_as_it_is(shown: Shown, tmp_path: Path) -> None:
    itself = psutil.Process()
    before = time.process_time()
    with (tmp_path / "one").open("w"), (tmp_path / "two").open("w"):
        files = itself.num_fds()
        shown.metrics.show("test", {os.getpid()})
    cpu, memory = shown.of("process_cpu_seconds_total"), shown.of("process_resident_memory_bytes")
    assert cpu is not None
    assert before - 0.1 <= cpu <= time.process_time() + 0.1
    assert memory == pytest.approx(itself.memory_info().rss, rel=0.2)
    assert shown.of("process_open_files") == pytest.approx(files, abs=1)  # the folder that is read is one
    assert shown.of("process_open_files_limit") == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert shown.of("process_start_timestamp_seconds") == pytest.approx(itself.create_time(), abs=2)
    assert shown.of("processes") == 1


def test_cpu_time_is_counted_once_however_often_it_is_read(shown: Shown) -> None:
    for _ in range(3):
        shown.metrics.show("test", {os.getpid()})
    cpu = shown.of("process_cpu_seconds_total")
    assert cpu is not None
    assert cpu <= time.process_time() + 0.1


def test_several_processes_are_shown_together_and_their_time_stays_when_they_end(shown: Shown) -> None:
    busy = "import sys\nsum(range(10**7))\nprint('done', flush=True)\nsys.stdin.read()"
    children = [
        subprocess.Popen([sys.executable, "-c", busy], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    pids = {child.pid for child in children}
    try:
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == b"done\n"
        assert pids <= descendants(os.getpid())
        shown.metrics.show("test", pids)
        used = [usage(pid) for pid in pids]
    finally:
        for child in children:
            child.communicate()
    cpu = sum(each.cpu_seconds for each in used if each)
    assert shown.of("processes") == 2
    assert shown.of("process_cpu_seconds_total") == pytest.approx(cpu, abs=0.1)
    memory = sum(each.resident_bytes for each in used if each)
    assert shown.of("process_resident_memory_bytes") == pytest.approx(memory, rel=0.1)
    shown.metrics.show("test", pids | {os.getpid()})
    after = shown.of("process_cpu_seconds_total")
    assert after is not None
    assert after >= cpu
    assert shown.of("processes") == 1


def test_the_process_closest_to_its_limit_of_open_files_is_the_one_that_is_shown(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {1: (5, 1024.0), 2: (90, 100.0), 3: (95, math.inf)}

    def of(pid: int) -> Usage | None:
        return used(pid, 1.0, *files[pid]) if pid in files else None

    monkeypatch.setattr(process_metrics, "usage", of)
    shown.metrics.show("test", {1, 2, 3, 4})
    assert (shown.of("process_open_files"), shown.of("process_open_files_limit")) == (90, 100)
    assert shown.of("process_cpu_seconds_total") == 3
    assert shown.of("process_start_timestamp_seconds") == 3
    assert shown.of("process_resident_memory_bytes") == 3 * 7


def test_a_process_that_has_ended_is_not_shown_and_has_no_descendants(shown: Shown) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    shown.metrics.show("test", {ended.pid})
    assert shown.of("process_cpu_seconds_total") is None
    assert shown.of("process_open_files") is None
    assert descendants(ended.pid) == set()


def test_another_process_with_the_same_number_is_counted_from_its_start(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    for process in (os.getpid(), os.getppid()):
        monkeypatch.setattr(process_metrics, "usage", lambda _, process=process: used(process, 2.0))
        shown.metrics.show("test", {1})
    assert shown.of("process_cpu_seconds_total") == 4


def test_a_loop_that_stands_still_is_late_by_as_much(shown: Shown) -> None:
    async def stand_still() -> None:
        watching = asyncio.create_task(shown.metrics.watch("test"))
        name = "event_loop_delay_seconds_count"
        while not shown.of(name):  # noqa: ASYNC110 - the watch turns beside it
            await asyncio.sleep(0.01)
        time.sleep(0.6)  # noqa: ASYNC251 - that is what it must see
        seen = shown.of(name) or 0
        while (shown.of(name) or 0) <= seen:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
        watching.cancel()

    asyncio.run(stand_still())
    late = shown.registry.get_sample_value(
        "onramp_event_loop_delay_seconds_bucket", {"process": "test", "le": "0.25"}
    )
    assert shown.of("event_loop_delay_seconds_sum") >= 0.5  # type: ignore[operator]
    assert late is not None
    assert late < (shown.of("event_loop_delay_seconds_count") or 0)


def test_the_release_is_that_of_the_project(shown: Shown) -> None:
    shown.metrics.show_build("4.2.0")
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == VERSION
    python = ".".join(map(str, sys.version_info[:3]))
    labels = {"version": VERSION, "python": python, "spark": "4.2.0"}
    assert shown.registry.get_sample_value("onramp_build_info", labels) == 1


def test_two_threads_that_show_two_kinds_count_each_process_once(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer shows its driver and Spark's JVM from two threads."""

    class Meanwhile(dict[Any, Any]):
        """The other thread enters while this one reads the counts."""

        def items(self) -> Any:
            other.start()
            other.join(0.5)  # it does not end before this one has: then there is nothing to lose
            return super().items()

    monkeypatch.setattr(process_metrics, "usage", lambda pid: used(pid, 1.0))
    other = threading.Thread(target=shown.metrics.show, args=("jvm", [2]))
    shown.metrics._counted = Meanwhile()
    shown.metrics.show("driver", [1])
    other.join(60)
    for kind, pid in (("driver", 1), ("jvm", 2)):
        shown.metrics.show(kind, [pid])
        assert shown.of("process_cpu_seconds_total", kind) == 1.0
