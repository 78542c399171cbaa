"""Draining: a gateway that stops while others take its place announces its end, and serves on for a time.

A balancer learns from `/readyz` that no new request should come, and every client from
`Connection: close` that its next one goes elsewhere.  Stopping at once would break both.
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
    """A connection that must close when the process drains."""

    def close_after_answer(self) -> None:
        """Make the answer that is under way the connection's last."""


class Drain:
    """Whether this worker drains, and for how many seconds it serves from then on."""

    def __init__(self, seconds: float = 0) -> None:
        self.started = False
        self.connections: WeakSet[Connection] = WeakSet()
        self._seconds = seconds

    @contextmanager
    def on_sigterm(self) -> Iterator[None]:
        """Drain at SIGTERM, and call the previous handler of SIGTERM when the seconds are over.

        Another SIGTERM changes nothing: one that is sent to the process group reaches a worker twice.
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
