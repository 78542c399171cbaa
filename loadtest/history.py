"""The generator's history, which another process writes and fsyncs.

The generator may send only numbers that it has leased, and a lease is on the disk before it
is granted.  So whatever happens to the generator: a number without a lease was never sent,
and one with a lease and no result has an unknown outcome.  A result that was lost on the way
makes an accepted packet unknown, never the other way round.

Lines of the file, JSON each:
    ["lease", first, count]
    ["unused", first, count]     given back unsent, at an orderly end
    ["ok"|"refused"|"unknown", first, count, intended, began, ended, bytes on the wire,
     why (null when ok), partition, offset (of a packet straight to Kafka, else null)]
Times are CLOCK_MONOTONIC, which all processes of a machine share.
"""

import os
import socket
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import orjson

OK: Final = "ok"
REFUSED: Final = "refused"
UNKNOWN: Final = "unknown"
LEASE: Final = "lease"
UNUSED: Final = "unused"

_SYNC_SECONDS: Final = 0.05
_READ: Final = 1 << 20


class Recorder:
    """Runs in another process than the generator, and owns the file."""

    def __init__(self, file: Path, first: int) -> None:
        """Nothing is opened before the block begins.  Numbers are leased from `first` on."""
        self.file = file
        self._next = first
        # The path of a Unix socket has at most about a hundred bytes; data folders may have more.
        self._folder = tempfile.TemporaryDirectory(prefix="onramp-load-")
        self.address = f"{self._folder.name}/history"
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="history", daemon=True)
        self.failure: OSError | None = None
        self.late = 0.0
        """Seconds by which the generator was late, as its last words show it."""

    def __enter__(self) -> Self:
        """Listen."""
        self._descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(self.address)
        self._server.listen(1)
        self._server.settimeout(_SYNC_SECONDS)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write the records that have arrived, sync and close; call it after the generator has ended."""
        self._stopping.set()
        self._thread.join()
        self._server.close()
        os.fsync(self._descriptor)
        os.close(self._descriptor)
        self._folder.cleanup()
        if self.failure and error is None:
            raise self.failure

    def _serve(self) -> None:
        try:
            while True:
                try:
                    connection, _ = self._server.accept()
                except TimeoutError:
                    if self._stopping.is_set():
                        return
                    continue
                with connection:
                    connection.settimeout(_SYNC_SECONDS)
                    self._take(connection)
        except OSError as error:  # the disk is full: the run is void, and says why
            self.failure = error

    def _take(self, connection: socket.socket) -> None:
        """Write the records of one generator until it disconnects."""
        rest, synced, dirty = b"", time.monotonic(), False
        while True:
            try:
                chunk = connection.recv(_READ)
                if not chunk:
                    return
                *lines, rest = (rest + chunk).split(b"\n")
                dirty = dirty or bool(lines)
                self._write(connection, lines)
            except TimeoutError:
                pass  # No request came: a moment to sync.
            if dirty and time.monotonic() - synced >= _SYNC_SECONDS:
                os.fsync(self._descriptor)
                synced, dirty = time.monotonic(), False

    def _write(self, connection: socket.socket, lines: list[bytes]) -> None:
        outcomes = [line for line in lines if not line.startswith(b'["lease"')]
        if outcomes:
            self._append(b"\n".join(outcomes) + b"\n")
            self._see_delay(orjson.loads(outcomes[-1]))
        for line in lines:
            if line.startswith(b'["lease"'):
                _, count = orjson.loads(line)
                self._append(orjson.dumps([LEASE, self._next, count]) + b"\n")
                os.fsync(self._descriptor)
                connection.sendall(b"%d\n" % self._next)
                self._next += count

    def _see_delay(self, line: list[Any]) -> None:
        if line[0] != UNUSED:
            _, _, _, intended, began, *_ = line
            self.late = began - intended

    def _append(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]


class Reporter:
    """The generator's side: leases numbers and records their outcomes.  Thread-safe."""

    def __init__(self, address: str, lease: int) -> None:
        """Connect.  `lease`: the numbers that are leased at a time."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(address)
        self._lease = lease
        self._next = self._end = 0
        self._lines: list[bytes] = []
        self._lock = threading.Lock()

    def numbers(self, count: int) -> int:
        """Return the first of `count` consecutive numbers of one client; they count as sent."""
        with self._lock:
            if self._end - self._next < count:
                self._give_back()
                self._flush()
                self._socket.sendall(orjson.dumps([LEASE, self._lease]) + b"\n")
                self._next = self._answer()
                self._end = self._next + self._lease
            first = self._next
            self._next += count
            return first

    def note(self, outcome: str, first: int, count: int, *rest: Any) -> None:
        """Record the outcome of the numbers; sent with the next `flush`."""
        self._lines.append(orjson.dumps([outcome, first, count, *rest]))

    def flush(self) -> None:
        """Send the recorded outcomes; the kernel has them even if this process is killed."""
        with self._lock:
            self._flush()

    def close(self) -> None:
        """End in order: unused numbers were never sent."""
        with self._lock:
            self._give_back()
            self._flush()
            self._socket.close()

    def _give_back(self) -> None:
        if self._end > self._next:
            self._lines.append(orjson.dumps([UNUSED, self._next, self._end - self._next]))
        self._next = self._end = 0

    def _flush(self) -> None:
        lines, self._lines = self._lines, []
        if lines:
            self._socket.sendall(b"\n".join(lines) + b"\n")

    def _answer(self) -> int:
        answer = b""
        while not answer.endswith(b"\n"):
            part = self._socket.recv(64)
            if not part:
                raise ConnectionError("the writer of the history has ended: nothing may be sent")
            answer += part
        return int(answer)
