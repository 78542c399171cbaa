"""Raises Ctrl-C and SIGTERM at a safe moment.

An exception out of a signal handler may fall between the start of a process and the note of its id, and the
process would never be stopped. So a signal is stored, and raised only while the main thread waits.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """A request to stop. It is no Exception, so that no handler of errors swallows it."""


class Interrupts:
    """A stored request to stop, and whether it may be raised now."""

    def __init__(self) -> None:
        """Signals are not touched before `listen`."""
        self._is_requested = False
        self._waiting = 0

    @contextmanager
    def listen(self) -> Iterator[None]:
        """Take over the signals that mean stop; give them back at the end."""
        # A hang-up that is ignored (nohup) stays ignored, as requested.
        wanted = [each for each in _SIGNALS if each is not signal.SIGHUP or not _ignored(each)]
        before = {each: signal.signal(each, self._note) for each in wanted}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Raise `Stopped` inside the context, also for an earlier signal."""
        self._waiting += 1
        try:
            if self._is_requested:
                raise Stopped
            yield
        finally:
            self._waiting -= 1

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        # Raised only once: a second Ctrl-C must not interrupt the shutdown.
        if self._is_requested:
            return
        self._is_requested = True
        if self._waiting:
            raise Stopped


def _ignored(number: signal.Signals) -> bool:
    return signal.getsignal(number) is signal.SIG_IGN
