"""How a gateway leaves while others take its place: it says so, and serves until everybody has heard.

A balancer learns from `/readyz` that no new request should come, and every client from
`Connection: close` that its next one goes elsewhere.  Stopping at once would refuse both.
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
    """What is told that this process leaves."""

    def leave(self) -> None:
        """The answer that is under way is the connection's last."""


class Leaving:
    """Whether this worker has begun to leave, and for how long it serves from then on."""

    def __init__(self, seconds: float = 0) -> None:
        self.begun = False
        self.connections: WeakSet[Connection] = WeakSet()
        self._seconds = seconds

    @contextmanager
    def on_sigterm(self) -> Iterator[None]:
        """Let SIGTERM begin it; what SIGTERM meant until now comes when the time is over.

        Another SIGTERM changes nothing: whoever asks a whole process group asks a worker twice.
        """
        if not self._seconds or threading.current_thread() is not threading.main_thread():
            yield
            return
        loop, stop = asyncio.get_running_loop(), signal.getsignal(signal.SIGTERM)
        assert callable(stop)  # noqa: S101 - uvicorn's
        signal.signal(signal.SIGTERM, lambda *_: loop.call_soon_threadsafe(self._begin, loop, stop))
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, stop)

    def _begin(
        self, loop: asyncio.AbstractEventLoop, stop: Callable[[int, FrameType | None], object]
    ) -> None:
        if self.begun:
            return
        self.begun = True
        logger.info("the gateway leaves", extra={"serves_for_s": self._seconds})
        for connection in list(self.connections):
            connection.leave()
        loop.call_later(self._seconds, stop, signal.SIGTERM, None)
