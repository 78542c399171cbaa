"""The runners of a worker process: one for each version of a function, at most eight with a process.

Processes start in a thread that never ends, because they end with the thread that started them (Linux'
PR_SET_PDEATHSIG). The same thread ends processes that were idle for a minute.
"""

import os
import queue
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Final

from services.transform.function.lookups import LookupTable
from services.transform.function.process import FunctionProcess
from services.transform.function.runner import FunctionRunner
from services.transform.function.transform_code import TransformCode

MAX_PROCESSES: Final = 8
IDLE_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 5.0


class RunnerCache:
    """A cache of runners for one process; `of` may be called from any thread."""

    def __init__(self, max_processes: int = MAX_PROCESSES, idle_seconds: float = IDLE_SECONDS) -> None:
        self._max, self._idle = max_processes, idle_seconds
        self._lock = threading.Lock()
        self._used: dict[TransformCode, float] = {}
        self._runners: dict[TransformCode, FunctionRunner] = {}
        self._starts: queue.SimpleQueue[tuple[TransformCode, Future[FunctionProcess]]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def of(self, code: TransformCode, lookups: Mapping[str, LookupTable]) -> FunctionRunner:
        """Return the runner of a version with these lookups; its process starts with the first batch."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="function-processes", daemon=True)
                self._thread.start()
            runner = self._runners.get(code)
            if runner is None:
                runner = self._runners[code] = FunctionRunner(code, lookups, start=self._start)
            self._used[code] = time.monotonic()
            others = sorted((each for each in self._used if each != code), key=self._used.__getitem__)
            for each in others[: max(len(self._used) - self._max, 0)]:
                self._close(each)
        runner.set_lookups(lookups)
        return runner

    def close_idle(self, now: float) -> None:
        """End the processes that were not used for the idle time before `now` (`time.monotonic`)."""
        with self._lock:
            for code, at in list(self._used.items()):
                if now - at > self._idle:
                    self._close(code)

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            for runner in self._runners.values():
                runner.close()
            self._runners.clear()
            self._used.clear()

    def _close(self, code: TransformCode) -> None:
        """Forget a runner unless a batch of it is running."""
        if self._runners[code].close_if_idle():
            del self._runners[code], self._used[code]

    def _start(self, code: TransformCode) -> FunctionProcess:
        future: Future[FunctionProcess] = Future()
        self._starts.put((code, future))
        return future.result()

    def _work(self) -> None:
        while True:
            try:
                code, future = self._starts.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                self.close_idle(time.monotonic())
                continue
            try:
                future.set_result(FunctionProcess(code))
            except BaseException as e:  # noqa: BLE001 - the caller raises it
                future.set_exception(e)


_of_process: RunnerCache = RunnerCache()


def _renew() -> None:
    """Forget the parent's runners: a forked process has neither their threads nor their locks' owners."""
    global _of_process  # noqa: PLW0603 - one for each process
    _of_process = RunnerCache()


os.register_at_fork(after_in_child=_renew)


def runner_of(code: TransformCode, lookups: Mapping[str, LookupTable]) -> FunctionRunner:
    """Return this process' runner of a version, with these lookups from the next batch on."""
    return _of_process.of(code, lookups)


def close_all() -> None:
    """End all processes of functions of this process."""
    _of_process.close()
