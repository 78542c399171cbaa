"""Calls functions that may never return, as of a storage that hangs, and waits for them for a limited time.

A thread cannot be cancelled.  So the threads are daemons, and their number is limited: as long as they all
hang, further calls fail after the same time, and start no thread.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, TypeVar

T = TypeVar("T")
_MAX_THREADS: Final = 4


class TimeLimit:
    """A limit for calls to one place; for many threads."""

    def __init__(self, name: str, seconds: float, max_threads: int = _MAX_THREADS) -> None:
        self.seconds = seconds
        self._name = name
        self._free = threading.BoundedSemaphore(max_threads)

    def call(self, function: Callable[[], T]) -> T:
        """Return the result of `function`.  Raise `TimeoutError` after `seconds`, or the function's error."""
        ends = time.monotonic() + self.seconds
        if not self._free.acquire(timeout=self.seconds):
            raise TimeoutError
        future: Future[T] = Future()
        threading.Thread(target=self._run, args=(function, future), name=self._name, daemon=True).start()
        return future.result(max(ends - time.monotonic(), 0.0))

    def _run(self, function: Callable[[], T], future: "Future[T]") -> None:
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001 - the caller gets it
            future.set_exception(error)
        else:
            future.set_result(result)
        finally:
            self._free.release()
