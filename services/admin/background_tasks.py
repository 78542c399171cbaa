"""Background tasks of the service: they run until stopped, and a stop ends their pauses."""

import asyncio
import logging
from contextlib import suppress
from typing import Final

log = logging.getLogger(__name__)

#: Seconds before a restart after an unexpected error.
_RETRY_SECONDS: Final = 1.0


class UntilStopped:
    """A background task: it restarts after an unexpected error, because no caller awaits it.

    A stop is requested once, and takes effect between steps and in pauses.
    """

    def __init__(self) -> None:
        self._stopping = asyncio.Event()

    @property
    def stopped(self) -> bool:
        """Return whether a stop was requested."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Request an end after the current step."""
        self._stopping.set()

    async def run(self) -> None:
        """Work until stopped."""
        while not self.stopped:
            try:
                await self._go_on()
            except Exception as e:
                log.exception("background task failed with an unexpected error; restarting")
                self._failed(e)
                await self.pause(_RETRY_SECONDS)
            else:
                return

    async def _go_on(self) -> None:
        """Work until stopped, or until an unexpected error."""
        raise NotImplementedError

    def _failed(self, error: Exception) -> None:
        """Record an unexpected error."""

    async def pause(self, seconds: float) -> None:
        """Wait for `seconds`, or until a stop is requested."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):  # `wait_for` of Python 3.11 loses a cancellation at its end
                await self._stopping.wait()
