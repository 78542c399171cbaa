"""Detects that Spark's JVM has ended while no job runs: otherwise a waiting driver would continue.

Under spark-submit the driver is the JVM's child. SIGTERM to the JVM leaves the driver without a parent.
"""

import threading
from collections.abc import Callable
from typing import Final

#: One small request to the JVM each time.
_POLL_SECONDS: Final = 2.0


class JvmWatch:
    """Polls whether the JVM runs, and calls `on_end` once when it has ended."""

    def __init__(
        self, is_alive: Callable[[], bool], on_end: Callable[[], object], seconds: float = _POLL_SECONDS
    ) -> None:
        """`on_end` runs in the thread of the watch."""
        self._is_alive = is_alive
        self._on_end = on_end
        self._seconds = seconds
        self._stopped = threading.Event()
        # A daemon thread: a request that a hanging JVM does not answer must not prevent the driver's end.
        self._thread = threading.Thread(target=self._run, name="jvm-watch", daemon=True)

    def start(self) -> None:
        """Start polling."""
        self._thread.start()

    def stop(self) -> None:
        """Stop polling; `on_end` is not called afterwards for a JVM that is stopped on purpose."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            if not self._is_alive() and not self._stopped.is_set():
                self._on_end()
                return
