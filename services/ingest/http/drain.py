"""Draining: a stopping gateway announces its end and continues to serve for a time.

A load balancer learns from `/readyz` to send no new requests, and every client from
`Connection: close` to reconnect elsewhere. Stopping at once would break both.
"""

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol
from weakref import WeakSet

logger = logging.getLogger(__name__)


class Connection(Protocol):
    """A connection that closes when the process drains."""

    def close_after_answer(self) -> None:
        """Make the current answer the connection's last."""


class Drain:
    """The drain state of this worker, and the seconds for which it continues to serve."""

    def __init__(self, seconds: float = 0) -> None:
        self.started = False
        self.connections: WeakSet[Connection] = WeakSet()
        self._seconds = seconds

    @contextmanager
    def on_sigterm(self) -> Iterator[None]:
        """Drain at SIGTERM, and call the previous SIGTERM handler when the seconds are over.

        A second SIGTERM is ignored: one sent to the process group reaches a worker twice.
        """
        if not self._seconds or threading.current_thread() is not threading.main_thread():
            yield
            return
        loop, stop = asyncio.get_running_loop(), signal.getsignal(signal.SIGTERM)
        assert callable(stop)  # noqa: S101 - uvicorn's
        signal.signal(signal.SIGTERM, lambda *_: loop.call_soon_threadsafe(self._start, loop, stop))
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, stop)

    def _start(
        self, loop: asyncio.AbstractEventLoop, stop: Callable[[int, FrameType | None], object]
    ) -> None:
        if self.started:
            return
        self.started = True
        logger.info("the gateway drains", extra={"serves_for_s": self._seconds})
        for connection in list(self.connections):
            connection.close_after_answer()
        loop.call_later(self._seconds, stop, signal.SIGTERM, None)
