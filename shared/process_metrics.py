"""Metrics of processes: CPU, memory, open files, and delays of the event loop.

Processes of one kind (the gateway's workers, Spark's) are shown together: with a label per process, every
restart would begin new series.
"""

import asyncio
import math
import os
import platform
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import psutil
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from shared.version import VERSION

_POLL_SECONDS: Final = 5.0
#: Blocks of the loop longer than this are always measured.
_STEP_SECONDS: Final = 0.1
_DELAYS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The resource usage of a process."""

    #: Equal for the same process only: a process number is reused.
    process: psutil.Process
    started: float
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
            "CPU seconds by kind of process, including ended processes.",
            kind,
            registry=registry,
        )
        self.resident = Gauge(
            "onramp_process_resident_memory_bytes",
            "Resident memory in bytes by kind of process; shared memory counts in each process.",
            kind,
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.open_files = Gauge(
            "onramp_process_open_files",
            "Open files and sockets of the process with the most, by kind of process.",
            kind,
            registry=registry,
            multiprocess_mode="livemax",
        )
        self.max_files = Gauge(
            "onramp_process_open_files_limit",
            "Maximum open files and sockets of a process, by kind of process.",
            kind,
            registry=registry,
            multiprocess_mode="livemin",
        )
        self.started = Gauge(
            "onramp_process_start_timestamp_seconds",
            "Start time of the youngest process, by kind of process (Unix seconds).",
            kind,
            registry=registry,
            multiprocess_mode="livemax",
        )
        self.count = Gauge(
            "onramp_processes",
            "Running processes, by kind of process.",
            kind,
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.delays = Histogram(
            "onramp_event_loop_delay_seconds",
            "Delay of the event loop in seconds, by kind of process; measured ten times a second.",
            kind,
            buckets=_DELAYS,
            registry=registry,
        )
        self.build = Gauge(
            "onramp_build_info",
            "1 for the running release of Onramp, with its versions of Python and Spark.",
            ["version", "python", "spark"],
            registry=registry,
            multiprocess_mode="livemax",
        )
        #: Counted CPU seconds by kind and process.
        self._counted: dict[tuple[str, psutil.Process], float] = {}
        #: The writer updates the driver's and Spark's metrics from two threads.
        self._lock = threading.Lock()

    def show_build(self, spark: str = "") -> None:
        """Show the running release."""
        self.build.labels(VERSION, platform.python_version(), spark).set(1)

    def show(self, kind: str, pids: Iterable[int]) -> None:
        """Show the usage of a kind's processes; nothing if it cannot be read."""
        pids = list(pids)
        usages = [used for pid in pids if (used := usage(pid))]
        with self._lock:
            self._show(kind, pids, usages)

    def _show(self, kind: str, pids: Sequence[int], usages: Sequence[Usage]) -> None:
        if not pids:
            self.count.labels(kind).set(0)
            self.resident.labels(kind).set(0)
        if not usages:
            return
        for used in usages:
            before = self._counted.get((kind, used.process), 0.0)
            self.cpu.labels(kind).inc(max(used.cpu_seconds - before, 0.0))
            self._counted[kind, used.process] = max(used.cpu_seconds, before)
        running = {used.process for used in usages}
        self._counted = {k: n for k, n in self._counted.items() if k[0] != kind or k[1] in running}
        fullest = max(usages, key=lambda used: used.open_files / used.max_files)
        self.resident.labels(kind).set(sum(used.resident_bytes for used in usages))
        self.open_files.labels(kind).set(fullest.open_files)
        self.max_files.labels(kind).set(fullest.max_files)
        self.started.labels(kind).set(max(used.started for used in usages))
        self.count.labels(kind).set(len(usages))

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


def usage(pid: int) -> Usage | None:
    """Return a process's usage; None if it has ended or belongs to another user."""
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            times = process.cpu_times()
            return Usage(
                process=process,
                started=process.create_time(),
                cpu_seconds=times.user + times.system,
                resident_bytes=process.memory_info().rss,
                open_files=process.num_fds(),
                max_files=_max_files(process),
            )
    except psutil.Error:
        return None


def descendants(pid: int) -> set[int]:
    """Return the descendants of a process; none if it has ended."""
    try:
        return {child.pid for child in psutil.Process(pid).children(recursive=True)}
    except psutil.NoSuchProcess:
        return set()


def _max_files(process: psutil.Process) -> float:
    """Return the limit of open files; infinite if there is none, or the system reports none (macOS)."""
    if not hasattr(process, "rlimit"):
        return math.inf
    soft, _ = process.rlimit(psutil.RLIMIT_NOFILE)
    return math.inf if soft == psutil.RLIM_INFINITY else float(soft)
