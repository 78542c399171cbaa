"""The program of the process that runs an author's function, read as text and given to `python -I -c`.

It needs the standard library only, because an environment with packages need not have Onramp; it takes
orjson if that is there. It reads batches from a pipe, and writes the results of a batch as one JSON document.
"""

from __future__ import annotations

import faulthandler
import json
import linecache
import logging
import mmap
import os
import resource
import signal
import sys
import time
import traceback
from datetime import date
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

try:
    import orjson
except ImportError:
    orjson = None  # type: ignore[assignment]

#: Values of the index in shared memory outside of a batch.
IDLE, LOADING = -1, -2
MAX_OUTPUT_BYTES = 2_000_000
_MAX_MESSAGE = 2000
_MAX_TRACEBACK = 16_000
_MAX_LOG_TEXT = 2000
_LOGS_PER_SECOND = 100
#: An output has an event_name and a payload, and nothing else.
_FIELDS = 2
#: The buffer of requests is reused: a new one for each batch costs page faults.
_MIN_BUFFER = 1 << 20


class TimeLimitError(BaseException):
    """The event has used its CPU time; not an `Exception`, so that the function does not catch it."""


class BadOutputError(Exception):
    """The function returned something else than events."""


class TooManyOutputsError(Exception):
    """The function returned more events than its limit."""


def _loads(data: bytes | memoryview | str) -> Any:
    if orjson is not None:
        return orjson.loads(data)
    return json.loads(bytes(data) if isinstance(data, memoryview) else data)


def _dumps(value: Any) -> bytes:
    if orjson is not None:
        return orjson.dumps(value)
    try:
        text = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=False, default=_plain)
    except ValueError:  # not-a-number, which orjson writes as null
        value = json.loads(json.dumps(value, default=_plain), parse_constant=lambda _: None)
        text = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


def _plain(value: object) -> str:
    if isinstance(value, date):
        return value.isoformat()
    if type(value).__name__ == "UUID":
        return str(value)
    raise TypeError(f"Type is not JSON serializable: {type(value).__name__}")


#: The writer and reader of JSON, without a call between where orjson is there.
dumps: Callable[[Any], bytes] = _dumps if orjson is None else orjson.dumps
loads: Callable[[Any], Any] = _loads if orjson is None else orjson.loads


class Logs:
    """Lines that the function prints or logs, at most 100 a second."""

    def __init__(self) -> None:
        self.lines: list[list[Any]] = []
        self.suppressed = 0
        self.index = LOADING
        self._second = 0
        self._left = 0

    def add(self, level: str, text: str) -> None:
        """Add a line, unless the second is full."""
        now = time.time()
        if int(now) != self._second:
            self._second, self._left = int(now), _LOGS_PER_SECOND
        if self._left <= 0:
            self.suppressed += 1
            return
        self._left -= 1
        shown = text.encode("utf-8", "replace").decode()[:_MAX_LOG_TEXT]
        self.lines.append([self.index, now, level, shown])

    def take(self) -> list[Any]:
        """Return the lines since the last call, and how many were suppressed."""
        taken = [self.lines, self.suppressed]
        self.lines, self.suppressed = [], 0
        return taken


class Stream:
    """Standard output or standard error of the function; each line is a log line."""

    encoding, errors, closed = "utf-8", "replace", False

    def __init__(self, logs: Logs, level: str) -> None:
        self._logs, self._level, self._rest = logs, level, ""

    def write(self, text: object) -> int:
        """Add the text's lines."""
        *lines, self._rest = (self._rest + str(text)).split("\n")
        for line in lines:
            self._logs.add(self._level, line)
        if len(self._rest) > _MAX_LOG_TEXT:
            self.end()
        return len(str(text))

    def end(self) -> None:
        """Add a line that has no newline."""
        if self._rest:
            self._logs.add(self._level, self._rest)
            self._rest = ""

    def flush(self) -> None:
        """Do nothing."""

    def isatty(self) -> bool:
        """Return False."""
        return False

    def fileno(self) -> NoReturn:
        """Raise `OSError`: there is no file."""
        raise OSError("the function's output is captured")


class Handler(logging.Handler):
    """Logging of the function."""

    def __init__(self, logs: Logs) -> None:
        super().__init__()
        self._logs = logs

    def emit(self, record: logging.LogRecord) -> None:
        """Add the record as a line, without its level and logger."""
        try:
            self._logs.add(record.levelname.lower(), self.format(record))
        except Exception:  # noqa: BLE001 - a wrong format string must not fail the event
            self.handleError(record)


class Lookups:
    """The snapshots of the tables that the function may read."""

    def __init__(self) -> None:
        self._tables: dict[str, Callable[[str], str | None]] = {}

    def put(self, name: str, content: bytes) -> None:
        """Replace a table by rows in memory: JSON of each row's JSON by key."""
        rows = _loads(content)
        self._tables[name] = rows.get

    def open_file(self, name: str, path: str) -> None:
        """Replace a table by an SQLite file."""
        import sqlite3  # noqa: PLC0415 - costs 3 ms, and few functions need it

        connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True, check_same_thread=False)

        def get(key: str) -> str | None:
            row = connection.execute("SELECT row FROM rows WHERE key = ?", (key,)).fetchone()
            return None if row is None else str(row[0])

        self._tables[name] = get

    def get(self, name: str, key: object) -> Any:
        """Return the row with this key as a new dict, or None."""
        try:
            table = self._tables[name]
        except KeyError:
            known = ", ".join(sorted(self._tables)) or "none"
            raise LookupError(f"the transform has no lookup {name!r:.70}; it has: {known}") from None
        if not isinstance(key, str):
            if key is None:
                return None
            key = str(key).lower() if isinstance(key, bool) else str(key)
        row = table(key)
        return None if row is None else _loads(row)


def _drop(_event: Any, _lookup: Any) -> None:
    """Return no output, as a function that was not loaded."""


class Function:
    """The author's function, loaded from its source."""

    def __init__(self, name: str, max_outputs: int, lookups: Lookups) -> None:
        self._file = f"<transform {name}>"
        self._max_outputs = max_outputs
        self._lookup = lookups.get
        self._call: Callable[[Any, Any], Any] = _drop

    def load(self, source: str) -> None:
        """Run the source.  Raise any error of its own."""
        linecache.cache[self._file] = (len(source), None, source.splitlines(True), self._file)
        module = ModuleType("transform")
        module.__file__ = self._file
        sys.modules["transform"] = module
        exec(compile(source, self._file, "exec"), module.__dict__)  # noqa: S102 - its purpose
        function = getattr(module, "transform", None)
        if not callable(function):
            raise TypeError("the source defines no function transform(event, lookup)")
        self._call = function

    def outputs(self, event: Any) -> bytes | None:
        """Return the JSON of the outputs as [[name, payload], …]; None if the event is dropped."""
        result = self._call(event, self._lookup)
        if result is None:
            return None
        if type(result) is dict:
            name, payload = result.get("event_name"), result.get("payload")
            if len(result) == _FIELDS and type(name) is str and type(payload) is dict:
                return self._encoded(((name, payload),))
            result = (result,)
        elif not isinstance(result, (list, tuple)):
            raise BadOutputError(
                f"transform() returned {type(result).__name__}; expected None, a dict, or a list of dicts"
            )
        elif len(result) > self._max_outputs:
            raise TooManyOutputsError(f"{len(result):,} outputs; the limit is {self._max_outputs:,}")
        elif not result:
            return None
        return self._encoded([_pair(output) for output in result])

    def _encoded(self, pairs: Sequence[tuple[str, dict[Any, Any]]]) -> bytes:
        try:
            encoded = dumps(pairs)
        except (TypeError, ValueError) as e:
            raise BadOutputError(f"an output is not JSON: {e}") from None
        if len(encoded) > MAX_OUTPUT_BYTES:
            for pair in pairs:
                size = len(dumps(pair))
                if size > MAX_OUTPUT_BYTES:
                    raise BadOutputError(f"an output has {size:,} bytes; the maximum is {MAX_OUTPUT_BYTES:,}")
        return encoded

    def failure(self, code: str, error: BaseException) -> dict[str, Any]:
        """Return the description of a failure; its place is the innermost line of the author's source."""
        place: tuple[str, int | None] | None = None
        for frame, line in traceback.walk_tb(error.__traceback__):
            if frame.f_code.co_filename == self._file:
                place = (frame.f_code.co_name, line)
        if isinstance(error, SyntaxError) and error.filename == self._file:
            place = ("", error.lineno)
        try:
            message = str(error)
        except Exception as e:  # noqa: BLE001 - the author's class
            message = f"its message cannot be shown: {type(e).__name__}"
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != self._file:
            trace = trace.tb_next
        lines = traceback.format_exception(type(error), error, trace)
        return {
            "code": code,
            "exception": type(error).__name__,
            "function": place[0] if place else "",
            "line": place[1] if place else None,
            "message": _text(message, _MAX_MESSAGE),
            "traceback": _text("".join(lines), _MAX_TRACEBACK, from_end=True),
        }


def _pair(output: object) -> tuple[str, dict[Any, Any]]:
    """Return an output's name and payload.  Raise `BadOutputError`."""
    if not isinstance(output, dict) or len(output) != _FIELDS:
        raise _wrong(output)
    name, payload = output.get("event_name"), output.get("payload")
    if type(name) is not str or not isinstance(payload, dict):
        raise _wrong(output)
    return name, payload


def _wrong(output: object) -> BadOutputError:
    if isinstance(output, dict):
        fields = ", ".join(sorted(map(str, output)))[:200]
        expected = "event_name (a text) and payload (a dict)"
        return BadOutputError(f"an output has the fields {fields or '(none)'}; expected {expected}")
    return BadOutputError(f"an output is {type(output).__name__}; expected a dict of event_name and payload")


def _text(text: str, most: int, *, from_end: bool = False) -> str:
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= most else (f"…{text[-most:]}" if from_end else f"{text[:most]}…")


class Child:
    """The loop of the process."""

    def __init__(self, requests: int, answers: int, memory: int) -> None:
        self._requests, self._answers = requests, answers
        self._current = memoryview(mmap.mmap(memory, mmap.PAGESIZE)).cast("q")
        self._buffer = memoryview(bytearray(_MIN_BUFFER))
        self._is_armed = False
        self._seconds = 1.0
        self._lookups = Lookups()
        self._logs = Logs()
        self._streams = [Stream(self._logs, "info"), Stream(self._logs, "error")]
        self._function = Function("", 1, self._lookups)

    def run(self) -> NoReturn:
        """Load the function, then answer batches until the parent closes the pipe."""
        signal.signal(signal.SIGPROF, self._on_limit)
        self._current[0] = LOADING
        self._answer(self._load(_loads(self._read_frame()[1])))
        self._current[0] = IDLE
        while True:
            kind, body = self._read_frame()
            if kind == b"L":
                self._take_lookup(body)
            else:
                self._answer(self._run_batch(body, is_timed=kind == b"T"))
                self._current[0] = IDLE

    def _load(self, setup: dict[str, Any]) -> bytes:
        _limit(setup)
        self._seconds = setup["cpu_ms"] / 1000
        sys.stdout, sys.stderr = self._streams
        logging.basicConfig(
            level=logging.INFO, handlers=[Handler(self._logs)], format="%(message)s", force=True
        )
        self._function = Function(setup["name"], setup["outputs"], self._lookups)
        try:
            self._function.load(setup["source"])
        except MemoryError as e:
            failure: dict[str, Any] | None = self._function.failure("memory", e)
        except BaseException as e:  # noqa: BLE001 - also SystemExit
            failure = self._function.failure("failed", e)
        else:
            failure = None
        for stream in self._streams:
            stream.end()
        return _dumps({"failure": failure, "logs": self._logs.take()})

    def _take_lookup(self, body: memoryview) -> None:
        head, _, content = bytes(body).partition(b"\n")
        lookup = _loads(head)
        if lookup["path"]:
            self._lookups.open_file(lookup["name"], lookup["path"])
        else:
            self._lookups.put(lookup["name"], content)

    def _run_batch(self, body: memoryview, *, is_timed: bool) -> bytearray:
        """Return the results of a batch; with `is_timed` also the nanoseconds of each event."""
        count = int.from_bytes(body[:4], "little")
        sizes = body[4 : 4 + 4 * count].cast("I")
        at = 4 + 4 * count
        current, logs, one = self._current, self._logs, self._one
        # Joined at once: a thousand small texts at a time would double the cost of an event in malloc.
        answer = bytearray(b'{"results":[')
        times: list[int] = []
        for index in range(count):
            end = at + sizes[index]
            current[0] = logs.index = index
            if is_timed:
                began = time.perf_counter_ns()
                answer += one(body[at:end])
                times.append(time.perf_counter_ns() - began)
            else:
                answer += one(body[at:end])
            answer += b","
            at = end
        signal.setitimer(signal.ITIMER_PROF, 0)
        for stream in self._streams:
            stream.end()
        written = _dumps(logs.take())
        if count:
            answer.pop()
        answer += b'],"logs":%b,"times":%b}' % (written, _dumps(times))
        return answer

    def _one(self, data: memoryview) -> bytes:
        function = self._function
        error: BaseException
        try:
            self._is_armed = True
            signal.setitimer(signal.ITIMER_PROF, self._seconds)
            outputs = function.outputs(loads(data))
            self._is_armed = False
            return b"null" if outputs is None else outputs  # noqa: TRY300 - this path runs for each event
        except TimeLimitError as e:
            return _dumps(function.failure("timeout", e))
        except BadOutputError as e:
            code, error = "bad_output", e
        except TooManyOutputsError as e:
            code, error = "too_many_outputs", e
        except MemoryError as e:
            code, error = "memory", e
        except BaseException as e:  # noqa: BLE001 - SystemExit and KeyboardInterrupt are failures too
            code, error = "failed", e
        try:
            self._is_armed = False
            return _dumps(function.failure(code, error))
        except TimeLimitError as e:
            return _dumps(function.failure("timeout", e))

    def _on_limit(self, _number: int, _frame: FrameType | None) -> None:
        if self._is_armed:
            self._is_armed = False
            raise TimeLimitError(f"the event has used {self._seconds:g} s of CPU time")

    def _read_frame(self) -> tuple[bytes, memoryview]:
        head = self._read(9)
        return bytes(head[:1]), self._read(int.from_bytes(head[1:], "little"))

    def _read(self, size: int) -> memoryview:
        if size > len(self._buffer):
            self._buffer = memoryview(bytearray(2 * size))
        data = self._buffer[:size]
        done = 0
        while done < size:
            count = os.readv(self._requests, [data[done:]])
            if not count:
                os._exit(0)
            done += count
        return data

    def _answer(self, body: bytes | bytearray) -> None:
        parts = [memoryview(len(body).to_bytes(8, "little")), memoryview(body)]
        while parts:
            count = os.writev(self._answers, parts)
            while parts and count >= len(parts[0]):
                count -= len(parts.pop(0))
            if parts:
                parts[0] = parts[0][count:]


def _limit(setup: dict[str, Any]) -> None:
    """Set the limits of the process, before any code of the author runs."""
    memory = setup["memory_mb"] << 20
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def _bind_to_parent(parent: int) -> None:
    """Gain no privileges, and end with the thread that started this process."""
    import ctypes  # noqa: PLC0415 - for Linux alone

    libc = ctypes.CDLL(None)
    libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    libc.prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(0)


def main() -> None:
    """Run the loop with the file descriptors that the parent passes."""
    requests, answers, memory, parent = map(int, sys.argv[1:5])
    _bind_to_parent(parent)
    os.setsid()
    os.chdir("/")
    faulthandler.enable(2, all_threads=False)
    faulthandler.register(signal.SIGUSR1, 2, all_threads=False)
    Child(requests, answers, memory).run()


if __name__ == "__main__":
    main()
