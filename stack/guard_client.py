"""The client of the guard (see `stack/guard.py` for its purpose)."""

import atexit
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class Guard:
    """The guard of this process: started with the first child, and stopped last."""

    def __init__(self) -> None:
        """The guard starts with the first child."""
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._files: list[int] = []

    def hold(self, file: int) -> None:
        """Have the guard keep this open file too, so that its lock lasts as long as the children.

        Calls after the first child have no effect.
        """
        self._files.append(file)

    def watch(self, pid: int, ask_with: int, grace_seconds: float) -> None:
        """Let the guard end this child if this process ends."""
        self._say(f"+ {pid} {ask_with} {grace_seconds}")

    def unwatch(self, pid: int) -> None:
        """Stop watching a child that has ended: its id may be reused soon."""
        self._say(f"- {pid}")

    def close(self) -> None:
        """Close the pipe and wait until the guard has ended the remaining children, and itself."""
        with self._lock:
            process, self._process = self._process, None
            self._files.clear()
        if process is None:
            return
        process.communicate()

    def _say(self, line: str) -> None:
        with self._lock:
            if self._process is None:
                self._process = self._start()
            if self._process.stdin is None:
                raise AssertionError("the guard was started without a pipe")
            # The guard is a safety net: everything works without it.
            with suppress(BrokenPipeError):
                self._process.stdin.write(line + "\n")
                self._process.stdin.flush()

    def _start(self) -> "subprocess.Popen[str]":
        atexit.register(self.close)
        return subprocess.Popen(
            [sys.executable, "-m", "stack.guard"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            pass_fds=self._files,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )


GUARD = Guard()
"""One per process, because what it stands in for is this process."""
