"""Child processes that start, are watched and stop as a whole family.

A part of the stack is more than one process: Spark has a JVM and Python workers, Postgres a process per
connection, and some of these leave their parent's process group. So a child gets its own session and a log
file. Stopping it means a stop signal, a grace period, and the end of all its descendants and all processes of
its session. Processes are always found by id, never by name.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from stack.errors import StackError
from stack.guard_client import GUARD
from stack.process_groups import family_of, kill_all, wait_all

TAIL_LINES = 25
_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command, and the name for its reports."""

    name: str
    argv: Sequence[str]
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    user: int | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    grace_seconds: float = 20.0


class Child:
    """A started command with all its descendants."""

    def __init__(self, command: Command) -> None:
        """Describe the child; nothing runs before `start`."""
        self.command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._itself: psutil.Process | None = None
        self._is_stopping = False

    @property
    def name(self) -> str:
        """The part's display name."""
        return self.command.name

    @property
    def pid(self) -> int:
        """The process id of the child itself.

        Raises:
            StackError: it has not been started.
        """
        if self._process is None:
            raise StackError(f"{self.name} has not been started.")
        return self._process.pid

    def start(self) -> None:
        """Start the command; its output goes to the end of its log file."""
        if self.running:
            raise StackError(f"{self.name} is running already (process {self.pid}).")
        command = self.command
        command.log.parent.mkdir(parents=True, exist_ok=True)
        try:
            with command.log.open("ab") as log:
                self._process = subprocess.Popen(
                    list(command.argv),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **command.env},
                    cwd=command.cwd,
                    user=command.user,
                    group=None if command.user is None else _group_of(command.user),
                    extra_groups=None if command.user is None else [],
                    start_new_session=True,
                )
        except OSError as error:
            raise StackError(f"{self.name} could not be started: {error}.") from error
        self._is_stopping = False
        self._itself = psutil.Process(self._process.pid)
        GUARD.watch(self.pid, int(command.stop_signal), command.grace_seconds)

    @property
    def running(self) -> bool:
        """Whether the child itself is alive."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit code (negative: the signal that ended it), or None while it runs."""
        return None if self._process is None else self._process.poll()

    def tail(self, lines: int = TAIL_LINES) -> str:
        """Return the end of the log."""
        return tail_of(self.command.log, lines)

    def check(self) -> None:
        """Raise with the end of the log if the child has ended by itself.

        Raises:
            StackError: it has ended; the message names it and says how.
        """
        if self._process is None or self.running:
            return
        raise StackError(
            f"{self.name} {describe_exit(self._process.returncode)}.",
            fix=f"Its whole log is {self.command.log}.",
            log_tail=self.tail(),
        )

    def ask_to_stop(self) -> None:
        """Send the stop signal and return at once; `stop` waits."""
        if self._process is not None and self.running and not self._is_stopping:
            self._is_stopping = True
            self._process.send_signal(self.command.stop_signal)

    def stop(self) -> None:
        """Ask the child to stop, wait its grace, then end what is left of its family."""
        if self._process is None or self._itself is None:
            return
        family = family_of(self._itself)
        if self.running:
            self.ask_to_stop()
            with suppress(subprocess.TimeoutExpired):  # The grace period is over.
                self._process.wait(self.command.grace_seconds)
        self._end(family)

    def kill(self) -> None:
        """End the child and its family at once, as a crash would, without cleanup."""
        self._end(set())

    def _end(self, family: set[psutil.Process]) -> None:
        if self._process is None or self._itself is None:
            return
        # Searched again: the child may have started others during its shutdown.
        family |= family_of(self._itself)
        kill_all(family)
        self._process.wait()  # Collected first, or another waiting thread takes the exit code.
        wait_all(family - {self._itself})
        GUARD.unwatch(self._process.pid)


def wait_for(
    condition: Callable[[], bool],
    child: Child,
    seconds: float,
    *,
    waiting_for: str,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Wait until the condition holds, and watch the child meanwhile; `check` may raise to end the wait.

    Raises:
        StackError: the child ended, or the time ran out; with the end of its log.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        check()
        child.check()
        if time.monotonic() > deadline:
            raise StackError(
                f"{child.name} was not ready after {seconds:.0f} seconds: {waiting_for}.",
                fix=f"Its whole log is {child.command.log}.",
                log_tail=child.tail(),
            )
        time.sleep(_POLL_SECONDS)


def describe_exit(code: int) -> str:
    """Return in words how a process ended."""
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"was ended by {name}"
    return f"ended with exit code {code}"


def tail_of(log: Path, lines: int = TAIL_LINES) -> str:
    """Return the last lines of a log file, or an empty text if there is none."""
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            # Enough for long JSON lines; a whole log may be gigabytes.
            file.seek(max(0, file.tell() - 64 * 1024))
            text = file.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def _group_of(user: int) -> int:
    import pwd  # noqa: PLC0415 - does not exist on every platform

    return pwd.getpwuid(user).pw_gid
