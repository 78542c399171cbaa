"""Metrics of processes: CPU, memory, open files, and delays of the event loop.

They come from Linux' /proc; other systems have no such series, rather than wrong ones. Processes of one kind
(the
gateway's workers, Spark's) are shown together: with a label per process, every restart would begin new
series.
"""

import asyncio
import math
import os
import platform
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from shared.version import VERSION

_PROC: Final = Path("/proc")
_POLL_SECONDS: Final = 5.0
#: Blocks of the loop longer than this are always measured.
_STEP_SECONDS: Final = 0.1
_DELAYS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
#: Fields of /proc/PID/stat after the process's name (proc(5)).
_PARENT, _USER, _SYSTEM, _STARTED, _RESIDENT = 1, 11, 12, 19, 21


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The resource usage of a process."""

    started: float
    #: The same in kernel ticks, which changes of the clock do not move.
    started_ticks: int
    cpu_seconds: float
    resident_bytes: int
    open_files: int
    max_files: float


class ProcessMetrics:
    """The metrics of a service's processes by kind."""

    def __init__(self, registry: CollectorRegistry) -> None:
        kind = ["process"]
        self.cpu = Counter(
            "onramp_process_cpu_seconds",
            "CPU seconds of the processes of a kind, including ended ones.",
            kind,
            registry=registry,
        )
        self.resident = Gauge(
            "onramp_process_resident_memory_bytes",
            "Resident memory of the processes of a kind in bytes; shared memory counts in each.",
            kind,
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.open_files = Gauge(
            "onramp_process_open_files",
            "Open files and sockets of the process of a kind with the most.",
            kind,
            registry=registry,
            multiprocess_mode="livemax",
        )
        self.max_files = Gauge(
            "onramp_process_open_files_limit",
            "Maximum open files and sockets of a process of the kind.",
            kind,
            registry=registry,
            multiprocess_mode="livemin",
        )
        self.started = Gauge(
            "onramp_process_start_timestamp_seconds",
            "Start time of the youngest process of a kind (Unix seconds).",
            kind,
            registry=registry,
            multiprocess_mode="livemax",
        )
        self.count = Gauge(
            "onramp_processes",
            "Running processes of a kind.",
            kind,
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.delays = Histogram(
            "onramp_event_loop_delay_seconds",
            "Seconds of delay of the event loop of a process of a kind, measured ten times a second.",
            kind,
            buckets=_DELAYS,
            registry=registry,
        )
        self.build = Gauge(
            "onramp_build_info",
            "1 for the running release of Onramp, with its Python and Spark.",
            ["version", "python", "spark"],
            registry=registry,
            multiprocess_mode="livemax",
        )
        #: Counted CPU time by kind, process and start: a process number is reused.
        self._counted: dict[tuple[str, int, int], float] = {}
        #: The writer updates the driver's and Spark's metrics from two threads.
        self._lock = threading.Lock()

    def show_build(self, spark: str = "") -> None:
        """Show the running release."""
        self.build.labels(VERSION, platform.python_version(), spark).set(1)

    def show(self, kind: str, pids: Iterable[int], proc: Path = _PROC) -> None:
        """Show the usage of a kind's processes; nothing if it cannot be read."""
        pids = list(pids)
        found = {pid: used for pid in pids if (used := usage(pid, proc))}
        with self._lock:
            self._show(kind, pids, found)

    def _show(self, kind: str, pids: Sequence[int], found: Mapping[int, Usage]) -> None:
        if not pids:
            self.count.labels(kind).set(0)
            self.resident.labels(kind).set(0)
        if not found:
            return
        for pid, used in found.items():
            before = self._counted.get((kind, pid, used.started_ticks), 0.0)
            self.cpu.labels(kind).inc(max(used.cpu_seconds - before, 0.0))
            self._counted[kind, pid, used.started_ticks] = max(used.cpu_seconds, before)
        self._counted = {k: n for k, n in self._counted.items() if k[0] != kind or k[1] in found}
        fullest = max(found.values(), key=lambda used: used.open_files / used.max_files)
        self.resident.labels(kind).set(sum(used.resident_bytes for used in found.values()))
        self.open_files.labels(kind).set(fullest.open_files)
        self.max_files.labels(kind).set(fullest.max_files)
        self.started.labels(kind).set(max(used.started for used in found.values()))
        self.count.labels(kind).set(len(found))

    async def watch(self, kind: str) -> None:
        """Show this process and the delays of its event loop until cancelled."""
        await asyncio.gather(self._watch_process(kind), self._watch_loop(kind))

    async def _watch_process(self, kind: str) -> None:
        while True:
            # In a thread: with thousands of connections the reading takes milliseconds.
            await asyncio.to_thread(self.show, kind, [os.getpid()])
            await asyncio.sleep(_POLL_SECONDS)

    async def _watch_loop(self, kind: str) -> None:
        loop, delays = asyncio.get_running_loop(), self.delays.labels(kind)
        while True:
            due = loop.time() + _STEP_SECONDS
            await asyncio.sleep(_STEP_SECONDS)
            delays.observe(max(loop.time() - due, 0.0))


def usage(pid: int, proc: Path = _PROC) -> Usage | None:
    """Return a process's usage; None if it has ended, belongs to another user, or the system is not Linux."""
    try:
        fields = _stat(pid, proc)
        ticks = os.sysconf("SC_CLK_TCK")
        return Usage(
            started=_booted(proc) + int(fields[_STARTED]) / ticks,
            started_ticks=int(fields[_STARTED]),
            cpu_seconds=(int(fields[_USER]) + int(fields[_SYSTEM])) / ticks,
            resident_bytes=int(fields[_RESIDENT]) * os.sysconf("SC_PAGE_SIZE"),
            open_files=sum(1 for _ in (proc / str(pid) / "fd").iterdir()),
            max_files=_max_files(pid, proc),
        )
    except (OSError, ValueError, IndexError):
        return None


def descendants(pid: int, proc: Path = _PROC) -> set[int]:
    """Return the descendants of a process."""
    parents: dict[int, int] = {}
    for each in proc.glob("[0-9]*"):
        try:
            parents[int(each.name)] = int(_stat(int(each.name), proc)[_PARENT])
        except (OSError, ValueError, IndexError):
            continue  # the process has ended meanwhile
    found, left = set[int](), {pid}
    while left:
        left = {child for child, parent in parents.items() if parent in left} - found
        found |= left
    return found


def _stat(pid: int, proc: Path) -> list[bytes]:
    return (proc / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()


def _booted(proc: Path) -> int:
    for line in (proc / "stat").read_bytes().splitlines():
        if line.startswith(b"btime "):
            return int(line.split()[1])
    raise ValueError("no btime in /proc/stat")


def _max_files(pid: int, proc: Path) -> float:
    for line in (proc / str(pid) / "limits").read_bytes().splitlines():
        if line.startswith(b"Max open files"):
            soft = line.split()[3]
            return math.inf if soft == b"unlimited" else float(soft)
    raise ValueError("no limit of open files")
