"""Supervises several worker processes of a gateway: starts, health-checks and replaces them.

uvicorn 0.54 health-checks a starting worker like a serving one, and kills it when it does not
answer in time: on a busy machine a worker never gets ready, because it is restarted each
time. Here a worker has a separate time to start, and a worker that fails repeatedly is restarted at
growing intervals.
"""

import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from socket import socket
from typing import Final

from uvicorn.config import STARTUP_FAILURE, Config
from uvicorn.supervisors.multiprocess import Multiprocess, Process

logger = logging.getLogger(__name__)

#: Seconds that a starting worker has to answer before it is checked again.
_ASK_SECONDS: Final = 0.2
_MAX_PAUSE_SECONDS: Final = 30.0


class Workers(Multiprocess):
    """The supervisor of the workers."""

    def __init__(self, config: Config, sockets: Sequence[socket], *, start_seconds: float) -> None:
        """Replace a worker that does not serve within `start_seconds`."""
        super().__init__(config, list(sockets))
        self._start_seconds = start_seconds
        #: Start time of each worker (monotonic seconds), until it serves.
        self._starting: dict[Process, float] = {}
        #: Time of the next start of an ended worker, by its slot.
        self._due: dict[int, float] = {}
        #: Consecutive ends of a worker, by its slot.
        self._failures: dict[int, int] = {}

    def init_processes(self) -> None:
        """Start the workers."""
        super().init_processes()
        self._starting |= dict.fromkeys(self.processes, time.monotonic())

    def keep_subprocess_alive(self) -> None:
        """Replace workers that ended, are not ready in time or do not answer."""
        for index, process in enumerate(self.processes):
            if self.should_exit.is_set():
                return
            if index in self._due:
                self._start_when_due(index)
            elif fault := self._fault(index, process):
                self._end(index, process, fault)

    def _fault(self, index: int, process: Process) -> str:
        """Return why a worker must be replaced; empty if it is healthy."""
        if not process.process.is_alive():
            return f"ended with exit code {process.exitcode}"
        started = self._starting.get(process)
        if started is None:
            limit = self.config.timeout_worker_healthcheck
            return "" if process.ping(limit) else f"no answer for {limit} s"
        if _serves(process):
            del self._starting[process]
            self._failures.pop(index, None)
            return ""
        late = time.monotonic() - started > self._start_seconds
        return f"not ready after {self._start_seconds:g} s" if late else ""

    def _end(self, index: int, process: Process, fault: str) -> None:
        process.kill()
        process.join()
        self._starting.pop(process, None)
        if process.exitcode == STARTUP_FAILURE:
            logger.error("gateway stops: a worker cannot start", extra={"worker": process.pid})
            self.should_exit.set()
            return
        failures = self._failures[index] = self._failures.get(index, 0) + 1
        pause = min(2.0 ** (failures - 1), _MAX_PAUSE_SECONDS) if failures > 1 else 0.0
        self._due[index] = time.monotonic() + pause
        said = {"worker": process.pid, "reason": fault, "starts_again_in_s": pause}
        logger.error("worker replaced", extra=said)

    def _start_when_due(self, index: int) -> None:
        if time.monotonic() >= self._due[index]:
            del self._due[index]
            process = self.processes[index] = Process(self.config, self.sockets)
            process.start()
            self._starting[process] = time.monotonic()


def _serves(process: Process) -> bool:
    """Return whether a worker has finished its start, by its latest answer."""
    serves = process.is_ready(_ASK_SECONDS)
    with suppress(OSError, EOFError):
        while process.parent_conn.poll(0):  # late answers to earlier checks
            serves = bool(process.parent_conn.recv())
    return serves
