"""Runs a function on batches of events: each event has one result, also if the process ends on one.

The end of a process identifies its event. That event is tried once more alone, because another event may
have damaged the process; then it fails. The events before it run again, because their results were lost.
"""

import re
import signal
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Final, NamedTuple

import msgspec

from services.transform.function.lookups import LookupTable, path_of
from services.transform.function.process import ChildDiedError, Death, FunctionProcess
from services.transform.function.results import Dropped, Failure, FunctionResult, OutputEvent, Outputs
from services.transform.function.transform_code import TransformCode
from shared.errors import (
    TRANSFORM_BAD_OUTPUT,
    TRANSFORM_CRASHED,
    TRANSFORM_FAILED,
    TRANSFORM_MEMORY,
    TRANSFORM_TIMEOUT,
    TRANSFORM_TOO_MANY_OUTPUTS,
    Fault,
)

_FAULTS: Final[Mapping[str, Fault]] = {
    "failed": TRANSFORM_FAILED,
    "bad_output": TRANSFORM_BAD_OUTPUT,
    "too_many_outputs": TRANSFORM_TOO_MANY_OUTPUTS,
    "timeout": TRANSFORM_TIMEOUT,
    "memory": TRANSFORM_MEMORY,
}
_DROPPED: Final = Dropped()
#: A frame of the author's source in the stack that faulthandler writes.
_FRAME: Final = re.compile(r'File "<transform [a-z0-9_]+>", line (\d+) in (\S+)')
_LOAD_ATTEMPTS: Final = 2
#: Maximum log lines that wait for `take_logs`.
_MAX_LINES: Final = 10_000
_MAX_TRACEBACK: Final = 16_000


class _Failed(msgspec.Struct):
    code: str
    exception: str
    function: str
    line: int | None
    message: str
    traceback: str


#: Index, time, level and text of each line, and the number of suppressed lines.
_Logs = tuple[list[tuple[int, float, str, str]], int]


class _Loaded(msgspec.Struct):
    failure: _Failed | None
    logs: _Logs


class _Metadata(msgspec.Struct):
    id: str


class _Event(msgspec.Struct):
    metadata: _Metadata


class _Answer(msgspec.Struct):
    results: list[list[tuple[str, msgspec.Raw]] | _Failed | None]
    logs: _Logs
    times: list[int]


_DECODE_ANSWER: Final = msgspec.json.Decoder(_Answer)
_DECODE_LOADED: Final = msgspec.json.Decoder(_Loaded)
_ID: Final = msgspec.json.Decoder(_Event)


class LogLine(NamedTuple):
    """A line that the function printed or logged; `event_id` is empty while the source was loading."""

    event_id: str
    digest: str
    #: Seconds since the epoch.
    at: float
    level: str
    text: str


class FunctionRunner:
    """Runs one version of a function in a process of its own, which starts with the first batch."""

    def __init__(
        self,
        code: TransformCode,
        lookups: Mapping[str, LookupTable],
        *,
        start: Callable[[TransformCode], FunctionProcess] = FunctionProcess,
    ) -> None:
        """`start` starts a process in a thread that lives as long as the process may."""
        self.code = code
        #: Deaths of processes, and the CPU seconds of ended ones.
        self.deaths = 0
        self.is_timed = False
        #: Nanoseconds of each event of the last batch, if `is_timed`.
        self.times: list[int] = []
        self.peak_memory = 0
        self._lock = Lock()
        self._start = start
        self._lookups = dict(lookups)
        self._sent: dict[str, str] = {}
        self._process: FunctionProcess | None = None
        self._unloadable: Failure | None = None
        self._ended_cpu = 0.0
        self._logs: list[LogLine] = []
        self._suppressed = 0

    @property
    def is_running(self) -> bool:
        """Return whether it has a process."""
        return self._process is not None

    def set_lookups(self, lookups: Mapping[str, LookupTable]) -> None:
        """Use other snapshots from the next batch on."""
        with self._lock:
            self._lookups = dict(lookups)

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of its processes so far."""
        process = self._process
        return self._ended_cpu + (process.cpu_seconds() if process is not None else 0.0)

    def take_logs(self) -> tuple[list[LogLine], int]:
        """Return the lines since the last call, and the number of suppressed ones."""
        taken = self._logs, self._suppressed
        self._logs, self._suppressed = [], 0
        return taken

    def run(self, events: Sequence[bytes], *, max_deaths: int | None = None) -> list[FunctionResult]:
        """Return the result of each event, in order.  Raise `OSError` if no process can be started.

        After `max_deaths` deaths only the first events have results: a batch on which each event kills the
        process would take minutes, and the caller may pause before.
        """
        with self._lock:
            self.times = []
            return self._run(events, max_deaths)

    def close(self) -> None:
        """End the process; the next batch starts another."""
        with self._lock:
            self._end()

    def close_if_idle(self) -> bool:
        """End the process unless a batch is running; return whether there is none now."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self._end()
        finally:
            self._lock.release()
        return True

    def _run(self, events: Sequence[bytes], max_deaths: int | None) -> list[FunctionResult]:
        results: list[FunctionResult] = []
        #: Results of events that were tried alone, after a death.
        alone: dict[int, FunctionResult] = {}
        first_deaths = self.deaths
        while (at := len(results)) < len(events):
            if at in alone:
                results.append(alone.pop(at))
                continue
            if max_deaths is not None and self.deaths - first_deaths >= max_deaths and not alone:
                break
            end = min(alone, default=len(events))
            try:
                results += self._try(events[at:end])
            except ChildDiedError as e:
                # The index is in memory of the process, which the function may have overwritten.
                culprit = min(at + max(e.death.at, 0), end - 1)
                alone[culprit] = self._alone(events[culprit])
        return results

    def _alone(self, event: bytes) -> FunctionResult:
        """Return the result of an event as the first of a new process."""
        try:
            return self._try([event])[0]
        except ChildDiedError as e:
            return _failure_of(e.death, self.code)

    def _try(self, events: Sequence[bytes]) -> list[FunctionResult]:
        """Run a batch in one process.  Raise `ChildDiedError` if it ends, with the index of the event."""
        process = self._ready_process()
        if process is None:
            return [self._unloadable or Failure(error=TRANSFORM_CRASHED) for _ in events]
        try:
            answer = _DECODE_ANSWER.decode(process.run(events, is_timed=self.is_timed))
        except ChildDiedError as e:
            self._note_death(e.death)
            raise
        except msgspec.MsgspecError as e:  # the function has written to the pipe, or to memory
            death = process.end(f"the answer of the process is unreadable: {type(e).__name__}")
            self._note_death(death)
            raise ChildDiedError(death) from None
        self._note_logs(answer.logs, events)
        self.times += answer.times
        if self.is_timed:
            self.peak_memory = max(self.peak_memory, process.peak_memory())
        return [_result_of(each) for each in answer.results]

    def _ready_process(self) -> FunctionProcess | None:
        """Return a process with the source and the lookups; None if the source cannot be loaded."""
        if self._process is not None and (
            not self._process.is_alive()  # it was killed while it was idle
            or not self._sent.keys()
            <= self._lookups.keys()  # it has a table that the function may not read now
        ):
            self._end()
        for attempt in range(_LOAD_ATTEMPTS):
            if self._unloadable is not None:
                return None
            try:
                if self._process is None:
                    self._process = self._started()
                return None if self._unloadable is not None else self._with_lookups(self._process)
            except ChildDiedError as e:
                self._note_death(e.death)
                if attempt == _LOAD_ATTEMPTS - 1:
                    self._unloadable = _failure_of(e.death, self.code)
        return None

    def _started(self) -> FunctionProcess:
        process = self._start(self.code)
        self._sent = {}
        loaded = _DECODE_LOADED.decode(process.loaded)
        self._note_logs(loaded.logs, ())
        if loaded.failure is not None:
            self._unloadable = _failed(loaded.failure)
        return process

    def _with_lookups(self, process: FunctionProcess) -> FunctionProcess:
        for name, table in self._lookups.items():
            if self._sent.get(name) != table.digest:
                process.put_lookup(name, table.content, str(path_of(table)) if table.is_file else "")
                self._sent[name] = table.digest
        return process

    def _note_death(self, death: Death) -> None:
        self.deaths += 1
        self._ended_cpu += death.cpu_seconds
        self._process = None

    def _note_logs(self, logs: _Logs, events: Sequence[bytes]) -> None:
        lines, suppressed = logs
        self._suppressed += suppressed
        for index, at, level, text in lines:
            event_id = _id_of(events[index]) if 0 <= index < len(events) else ""
            self._logs.append(LogLine(event_id, self.code.digest, at, level, text))
        if len(self._logs) > _MAX_LINES:
            self._suppressed += len(self._logs) - _MAX_LINES
            del self._logs[:-_MAX_LINES]

    def _end(self) -> None:
        self._unloadable = None
        if self._process is not None:
            self._ended_cpu += self._process.cpu_seconds()
            self._process.close()
            self._process = None


def _id_of(event: bytes) -> str:
    try:
        return _ID.decode(event).metadata.id
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""


def _result_of(answer: list[tuple[str, msgspec.Raw]] | _Failed | None) -> FunctionResult:
    if answer is None:
        return _DROPPED
    if isinstance(answer, _Failed):
        return _failed(answer)
    return Outputs(tuple([OutputEvent(name, bytes(payload)) for name, payload in answer]))


def _failed(failure: _Failed) -> Failure:
    return Failure(
        error=_FAULTS.get(failure.code, TRANSFORM_FAILED),
        exception=failure.exception,
        function=failure.function,
        line=failure.line,
        message=failure.message,
        traceback=failure.traceback,
    )


def _failure_of(death: Death, code: TransformCode) -> Failure:
    """Return the failure of an event on which the process died."""
    frames = _FRAME.findall(death.stderr)
    line, function = (int(frames[0][0]), frames[0][1]) if frames else (None, "")
    if death.is_timeout:
        error, exception = TRANSFORM_TIMEOUT, "Timeout"
        message = f"the process did not end the event within {2 * code.limits.cpu_ms:,} ms of CPU time"
        message += f" or {20 * code.limits.cpu_ms:,} ms"
    elif death.code == -signal.SIGKILL or "MemoryError" in death.stderr or "bad_alloc" in death.stderr:
        error, exception = TRANSFORM_MEMORY, "Killed"
        message = "the process was killed, as the kernel does when memory is short"
    elif death.code < 0:
        error, exception = TRANSFORM_CRASHED, _signal_name(-death.code)
        message = f"the process ended by {exception}"
    else:
        error, exception = TRANSFORM_CRASHED, "Exit"
        message = f"the process ended with exit code {death.code}"
    return Failure(
        error=error,
        exception=exception,
        function=function,
        line=line,
        message=message,
        traceback=death.stderr[-_MAX_TRACEBACK:],
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
