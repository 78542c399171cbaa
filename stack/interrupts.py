"""Ctrl-C and SIGTERM, at a moment when nothing can be left behind.

An exception out of a signal handler may fall between a process being started and its id
being noted, and then nobody would ever stop it. So a signal is remembered, and raised
only while the main thread waits for something.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """Somebody asked us to stop. No error, so that no handler of errors swallows it."""


class Interrupts:
    """Whether we were asked to stop, and whether that may be raised right now."""

    def __init__(self) -> None:
        """Signals are not touched before `listen`."""
        self._asked = False
        self._waiting = 0

    @contextmanager
    def listen(self) -> Iterator[None]:
        """Take over the signals that mean stop; give them back at the end."""
        # A hang-up that is ignored (nohup) stays ignored: that is what it was asked for.
        wanted = [each for each in _SIGNALS if each is not signal.SIGHUP or not _ignored(each)]
        before = {each: signal.signal(each, self._note) for each in wanted}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Raise `Stopped` in here, also when the signal came before."""
        self._waiting += 1
        try:
            if self._asked:
                raise Stopped
            yield
        finally:
            self._waiting -= 1

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        # Once only: while everything is being stopped a second Ctrl-C must not stop that.
        if self._asked:
            return
        self._asked = True
        if self._waiting:
            raise Stopped


def _ignored(number: signal.Signals) -> bool:
    return signal.getsignal(number) is signal.SIG_IGN
