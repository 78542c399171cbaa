"""How a starter of children speaks to its guard (see `stack/guard.py` for why there is one)."""

import atexit
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class Guard:
    """The guard of this process: started with the first child, told of each, sent home last."""

    def __init__(self) -> None:
        """Nothing runs until there is somebody to watch."""
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._held: list[int] = []

    def hold(self, file: int) -> None:
        """Have the guard keep this open file too, so that its lock lasts as long as our children.

        Only before the first child is watched; later it has no effect.
        """
        self._held.append(file)

    def watch(self, pid: int, ask_with: int, grace_seconds: float) -> None:
        """From now on end this child, should this process vanish."""
        self._say(f"+ {pid} {ask_with} {grace_seconds}")

    def unwatch(self, pid: int) -> None:
        """The child has ended and been waited for; its id may be somebody else's soon."""
        self._say(f"- {pid}")

    def close(self) -> None:
        """Close the pipe and wait until the guard has ended who was left, and itself."""
        with self._lock:
            process, self._process = self._process, None
            self._held.clear()
        if process is None:
            return
        process.communicate()

    def _say(self, line: str) -> None:
        with self._lock:
            if self._process is None:
                self._process = self._start()
            if self._process.stdin is None:
                raise AssertionError("the guard was started without a pipe")
            # The guard is the second line of defence: without it everything else goes on.
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
            pass_fds=self._held,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )


GUARD = Guard()
"""One per process, because what it stands in for is this process."""
