"""What works in the background of the service until it is stopped, and pauses no longer than until then."""

import asyncio
from contextlib import suppress


class UntilStopped:
    """The end of a background task: asked for once, and seen between its steps and in its pauses."""

    def __init__(self) -> None:
        self._stopping = asyncio.Event()

    @property
    def stopped(self) -> bool:
        """Whether it has been asked to end."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Have it end after the step that it is at."""
        self._stopping.set()

    async def pause(self, seconds: float) -> None:
        """Wait for so long, or until it is to end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):  # `wait_for` of Python 3.11 loses a cancellation at its end
                await self._stopping.wait()
