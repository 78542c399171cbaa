"""What works in the background of the service until it is stopped, and pauses no longer than until then."""

import asyncio
import logging
from contextlib import suppress
from typing import Final

log = logging.getLogger(__name__)

#: Until what ended for a reason that nobody foresaw begins again.
_AGAIN_SECONDS: Final = 1.0


class UntilStopped:
    """A background task: it begins again after what nobody foresaw, because nobody waits for its end.

    Its end is asked for once, and seen between its steps and in its pauses.
    """

    def __init__(self) -> None:
        self._stopping = asyncio.Event()

    @property
    def stopped(self) -> bool:
        """Whether it has been asked to end."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Have it end after the step that it is at."""
        self._stopping.set()

    async def run(self) -> None:
        """Work until stopped."""
        while not self.stopped:
            try:
                await self._go_on()
            except Exception as e:
                log.exception("a background task fails for a reason that nobody foresaw, and begins again")
                self._failed(e)
                await self.pause(_AGAIN_SECONDS)
            else:
                return

    async def _go_on(self) -> None:
        """Work until stopped, or until something happens that it does not know."""
        raise NotImplementedError

    def _failed(self, error: Exception) -> None:
        """Note that it failed for a reason that nobody foresaw."""

    async def pause(self, seconds: float) -> None:
        """Wait for so long, or until it is to end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):  # `wait_for` of Python 3.11 loses a cancellation at its end
                await self._stopping.wait()
