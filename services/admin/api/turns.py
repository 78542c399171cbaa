"""Limits concurrent requests by caller, so that slow or many requests leave room for other callers."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from shared.errors import TOO_MANY_AT_ONCE, InfrastructureError

#: Maximum concurrent requests of one caller.  The database serves eight in all, so two callers with slow
#: requests do not block a third.
MAX_OF_ONE: Final = 3
#: Maximum number of waiting requests, and seconds that they wait.
_MAX_WAITING: Final = 64
_SECONDS: Final = 5.0


class TurnError(InfrastructureError):
    """The request was refused by the limit; nothing was done."""


class Turns:
    """Requests in progress by caller; for one event loop."""

    def __init__(
        self, *, limit: int = MAX_OF_ONE, waiting: int = _MAX_WAITING, seconds: float = _SECONDS
    ) -> None:
        self._waiting = waiting
        self._seconds = seconds
        self._turns = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(limit))
        self._of: Counter[str] = Counter()
        self._limit = limit

    @asynccontextmanager
    async def of(self, name: str) -> AsyncIterator[None]:
        """Wait for a turn and hold it during the block.

        Raises `TurnError` if too many requests wait, or if the wait times out.
        """
        if self._of[name] >= self._limit + self._waiting:
            raise self._refusal(name)
        self._of[name] += 1
        try:
            await self._wait(name)
            try:
                yield
            finally:
                self._turns[name].release()
        finally:
            self._of[name] -= 1

    async def _wait(self, name: str) -> None:
        try:
            async with asyncio.timeout(self._seconds):
                await self._turns[name].acquire()
        except TimeoutError:
            raise self._refusal(name) from None

    def _refusal(self, name: str) -> TurnError:
        detail = (
            f"{self._limit} requests with the key {name} are answered at once, and {self._of[name]} are here"
        )
        return TurnError(TOO_MANY_AT_ONCE, detail)
