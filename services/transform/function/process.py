"""The process of a function, as its parent sees it: start, batches over pipes, watch and kill.

The child writes the index of its event to shared memory. The parent reads it while it waits, and kills the
child when one event has used twice its CPU limit, or twenty times its limit in wall time: a signal handler in
Python does not run during a loop in C.
"""

import contextlib
import fcntl
import mmap
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from services.transform.function.child_program import IDLE, LOADING
from services.transform.function.transform_code import TransformCode

#: Multiples of the CPU limit at which the parent kills: in CPU time, and in wall time.
_MAX_CPU: Final = 2.0
_MAX_WALL: Final = 20.0
#: Limits of loading the source, whose imports may be large.
_LOAD_CPU_SECONDS: Final = 20.0
_LOAD_WALL_SECONDS: Final = 120.0
_MIN_POLL_SECONDS: Final = 0.02
_MAX_POLL_SECONDS: Final = 0.5
#: Maximum seconds until the stack of a killed function begins, and between two pieces of it.
_STACK_SECONDS: Final = 2.0
_PIECE_SECONDS: Final = 0.2
_PIPE_BYTES: Final = 1 << 20
_SIZE_BYTES: Final = 8
_MAX_STDERR: Final = 64 << 10
_PROGRAM: Final = files(__package__).joinpath("child_program.py").read_text("utf-8")


class Death(NamedTuple):
    """The end of a child during the event `at`, which is negative if it ended before any event."""

    at: int
    #: The parent killed it, because an event was over its time.
    is_timeout: bool
    #: Exit code; negative: the signal.
    code: int
    #: Standard error, with the stack of the function if it was available.
    stderr: str
    cpu_seconds: float


class ChildDiedError(Exception):
    """The child ended before its answer."""

    def __init__(self, death: Death) -> None:
        super().__init__(f"the process ended with code {death.code}")
        self.death = death


class FunctionProcess:
    """A started child; used by one thread at a time."""

    def __init__(self, code: TransformCode) -> None:
        """Start the process and load the source.

        The process ends with the calling thread.  Raise `OSError` if it cannot be started, and
        `ChildDiedError` if it ends while it loads.
        """
        self._limit = code.limits.cpu_ms / 1000
        self._is_running = False
        #: The buffer of answers is reused: a new one for each batch costs page faults.
        self._buffer = memoryview(bytearray(_PIPE_BYTES))
        self._stack = b""
        self._owner = os.getpid()
        memory = os.memfd_create("onramp-transform", os.MFD_CLOEXEC)
        os.ftruncate(memory, mmap.PAGESIZE)
        self._shared = mmap.mmap(memory, mmap.PAGESIZE)
        self._current = memoryview(self._shared).cast("q")
        self._current[0] = LOADING
        requests, self._requests = os.pipe2(os.O_CLOEXEC)
        self._answers, answers = os.pipe2(os.O_CLOEXEC)
        self._stderr, stderr = os.pipe2(os.O_CLOEXEC)
        try:
            for fd in (self._requests, self._answers, self._stderr, stderr):
                os.set_blocking(fd, False)  # a full pipe of standard error must not stop the function
            for fd in (self._requests, self._answers):
                with contextlib.suppress(OSError):  # above the user's limit: slower, and correct
                    fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            self._process = subprocess.Popen(
                [
                    code.environment or sys.executable,
                    *("-I", "-B", "-c", _PROGRAM),
                    *map(str, (requests, answers, memory, os.getpid())),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                pass_fds=(requests, answers, memory),
                env={},
            )
        except BaseException:
            self._close_files()
            raise
        finally:
            for fd in (requests, answers, stderr, memory):
                os.close(fd)
        #: The kernel's clock of the CPU time of that process (clock_getcpuclockid).
        self._cpu_clock = (~self._process.pid << 3) | 2
        self._is_running = True
        limits = code.limits
        setup = {
            "name": code.name,
            "source": code.source,
            "cpu_ms": limits.cpu_ms,
            "memory_mb": limits.memory_mb,
            "outputs": limits.outputs,
        }
        #: Answer to the setup: the failure of the source, if it raised one.
        try:
            self.loaded = bytes(self._exchange(_frame(b"S", orjson.dumps(setup))))
        except BaseException:
            self.close()
            raise

    def __del__(self) -> None:
        """End the process with its last user."""
        self.close()

    @property
    def pid(self) -> int:
        """Return the id of the process."""
        return self._process.pid

    def cpu_seconds(self) -> float:
        """Return the CPU time of the process so far; 0 after its end."""
        try:
            return time.clock_gettime(self._cpu_clock)
        except OSError:
            return 0.0

    def peak_memory(self) -> int:
        """Return the maximum resident bytes of the process; 0 if unknown."""
        try:
            with Path(f"/proc/{self.pid}/status").open(encoding="ascii", errors="replace") as status:
                line = next((each for each in status if each.startswith("VmHWM:")), "")
        except OSError:
            return 0
        return int(line.split()[1]) << 10 if line else 0

    def put_lookup(self, name: str, content: bytes, path: str) -> None:
        """Give the child a table: its rows, or the path of its SQLite file."""
        head = orjson.dumps({"name": name, "path": path})
        self._exchange(_frame(b"L", head + b"\n" + (b"" if path else content)), has_answer=False)

    def run(self, events: Sequence[bytes], *, is_timed: bool = False) -> memoryview:
        """Return the child's answer to a batch, which is valid until the next one.

        Raise `ChildDiedError`, which names the event.
        """
        sizes = memoryview(bytearray(4 * len(events))).cast("I")
        for index, event in enumerate(events):
            sizes[index] = len(event)
        kind, count = b"T" if is_timed else b"B", len(events).to_bytes(4, "little")
        self._current[0] = 0
        return self._exchange(_frame(kind, count, sizes.tobytes(), *events))

    def is_alive(self) -> bool:
        """Return whether the process runs."""
        return self._is_running and self._process.poll() is None

    def end(self, reason: str) -> Death:
        """End the process because of a fault in its answer, and return the end as a death."""
        cpu = self.cpu_seconds()
        self.close()
        return Death(0, is_timeout=False, code=1, stderr=reason, cpu_seconds=cpu)

    def close(self) -> None:
        """End the process."""
        if self._is_running:
            self._is_running = False
            if os.getpid() == self._owner:  # a forked process has only copies of the files
                self._process.kill()
                self._process.wait()
            self._close_files()

    def _exchange(self, request: bytes, *, has_answer: bool = True) -> memoryview:
        unsent, done, expected = memoryview(request), 0, _SIZE_BYTES if has_answer else 0
        watch = _Watch(self, self._limit)
        poll = select.poll()
        poll.register(self._answers, select.POLLIN)
        poll.register(self._requests, select.POLLOUT)
        while unsent or done < expected:
            ready = dict(poll.poll(watch.seconds * 1000))
            if self._requests in ready:
                unsent = self._send(unsent)
                if not unsent:
                    poll.unregister(self._requests)
            if self._answers in ready:
                count = os.readv(self._answers, [self._buffer[done:]])
                if not count:
                    raise self._died(is_timeout=False)
                done += count
                if done >= expected == _SIZE_BYTES:
                    expected += int.from_bytes(self._buffer[:_SIZE_BYTES], "little")
                    self._grow(expected)
            elif watch.is_over(self._current[0]):
                self._show_stack()
                raise self._died(is_timeout=True)
        return self._buffer[_SIZE_BYTES:expected]

    def _grow(self, size: int) -> None:
        if size > len(self._buffer):
            larger = memoryview(bytearray(2 * size))
            larger[: len(self._buffer)] = self._buffer
            self._buffer = larger

    def _send(self, unsent: memoryview) -> memoryview:
        try:
            return unsent[os.write(self._requests, unsent) :]
        except BlockingIOError:
            return unsent
        except BrokenPipeError:
            raise self._died(is_timeout=False) from None

    def _show_stack(self) -> None:
        """Have the child write its stack, also from within a loop in C."""
        self._process.send_signal(signal.SIGUSR1)
        seconds = _STACK_SECONDS
        while select.select([self._stderr], [], [], seconds)[0]:
            if not (piece := os.read(self._stderr, _MAX_STDERR)):
                break
            self._stack += piece
            seconds = _PIECE_SECONDS

    def _died(self, *, is_timeout: bool) -> ChildDiedError:
        """End the process and return how it ended."""
        cpu, index = self.cpu_seconds(), self._current[0]
        if is_timeout:
            self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LOAD_CPU_SECONDS)  # it closed its pipe, and may be about to exit
        self._process.kill()
        code = self._process.wait()
        with contextlib.suppress(BlockingIOError):  # nothing more
            self._stack += os.read(self._stderr, _MAX_STDERR)
        stderr = self._stack[:_MAX_STDERR].decode("utf-8", "replace")
        self.close()
        return ChildDiedError(Death(index, is_timeout, code, stderr, cpu))

    def _close_files(self) -> None:
        for fd in (self._requests, self._answers, self._stderr):
            os.close(fd)
        self._current.release()
        self._shared.close()


class _Watch:
    """Watches the event that the child is at."""

    def __init__(self, process: FunctionProcess, limit: float) -> None:
        self._process, self._limit = process, limit
        self.seconds = min(max(limit / 4, _MIN_POLL_SECONDS), _MAX_POLL_SECONDS)
        self._index: int | None = None
        self._cpu = self._wall = 0.0

    def is_over(self, index: int) -> bool:
        """Return whether the current event is over its CPU or wall time."""
        cpu, wall = self._process.cpu_seconds(), time.monotonic()
        if index != self._index:
            self._index, self._cpu, self._wall = index, cpu, wall
            return False
        if index in {IDLE, LOADING}:
            return cpu - self._cpu > _LOAD_CPU_SECONDS or wall - self._wall > _LOAD_WALL_SECONDS
        return cpu - self._cpu > _MAX_CPU * self._limit or wall - self._wall > _MAX_WALL * self._limit


def _frame(kind: bytes, *parts: bytes) -> bytes:
    """Return a request: its kind, its size and its parts; each part is copied once."""
    return b"".join((kind, sum(map(len, parts)).to_bytes(8, "little"), *parts))
