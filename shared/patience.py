"""Deadlines for calls that may never return: a library of S3 waits for an unresponsive server forever.

Each call runs in its own thread.  A call beyond its deadline is abandoned: the caller gets an error, and the
thread remains until the call returns.  So their number is limited.  A process with abandoned calls of a
library without timeouts must exit without waiting (`is_waiting`): the library would wait for them.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

#: Maximum concurrent calls, including abandoned ones.
AT_ONCE: Final = 8

T = TypeVar("T")


class SilentError(OSError):
    """No answer in time.  Its text is Onramp's and may be shown."""


class Patience:
    """Makes calls with a deadline."""

    def __init__(self, *, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._changed = threading.Condition()
        self._calls: set[_Call[Any]] = set()
        self._threads: set[threading.Thread] = set()
        self._is_over = False

    def call(self, act: Callable[[], T], seconds: float) -> T:
        """Return or raise the outcome of `act`.  Raises `SilentError` after `seconds` without one."""
        deadline = time.monotonic() + seconds
        call = _Call(act)
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or self._is_stuck or self._has_room, seconds)
            if self._is_over:
                raise SilentError("the service is stopping")
            if not self._has_room:
                raise SilentError("no answer to earlier calls")
            self._calls.add(call)
            # A daemon thread: an abandoned call must not block the exit.
            thread = threading.Thread(target=self._run, args=(call,), name="patience", daemon=True)
            self._threads = {each for each in self._threads if each.is_alive()} | {thread}
            thread.start()
        with self._changed:
            self._changed.wait_for(lambda: call.is_done or self._is_over, deadline - time.monotonic())
            call.is_given_up = not call.is_done
            self._changed.notify_all()
        if call.is_given_up:
            raise SilentError(
                "the service is stopping" if self._is_over else f"no answer in {seconds:.0f} seconds"
            )
        # The thread still frees the library's objects, which aborts a process that exits meanwhile.
        thread.join(max(0.0, deadline - time.monotonic()))
        return call.outcome()

    def end(self) -> None:
        """Abandon every call, and refuse later ones."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    @property
    def is_waiting(self) -> bool:
        """Return whether calls have not returned, or their threads have not ended."""
        with self._changed:
            return any(each.is_alive() for each in self._threads)

    @property
    def _has_room(self) -> bool:
        return len(self._calls) < self._at_once

    @property
    def _is_stuck(self) -> bool:
        return not self._has_room and all(call.is_given_up for call in self._calls)

    def _run(self, call: "_Call[Any]") -> None:
        call.run()
        with self._changed:
            call.is_done = True
            self._calls.discard(call)
            self._changed.notify_all()


class _Call(Generic[T]):
    """One call; the result of an abandoned call is dropped with its thread."""

    def __init__(self, act: Callable[[], T]) -> None:
        self._act = act
        self._returned: list[T] = []
        self._raised: BaseException | None = None
        self.is_done = False
        self.is_given_up = False

    def run(self) -> None:
        try:
            self._returned.append(self._act())
        except BaseException as e:  # noqa: BLE001 - it is raised where the call was made
            self._raised = e

    def outcome(self) -> T:
        """Return or raise the call's outcome."""
        if self._raised is not None:
            raise self._raised
        return self._returned[0]
