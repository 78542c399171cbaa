"""Background tasks of the service: they run until stopped, and a stop ends their pauses."""

import asyncio
import logging
from contextlib import suppress
from typing import ClassVar, Final, Generic, Protocol, TypeVar

from shared.errors import InfrastructureError, OnrampError

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


class Session(Protocol):
    """A connection of a task."""

    def close(self) -> None:
        """Close the connection."""


S = TypeVar("S", bound=Session)


class SessionTask(UntilStopped, Generic[S]):
    """A background task with a database session, which is opened again after a failure."""

    #: Seconds from the end of a session to the next one.
    retry_seconds: ClassVar[float]
    #: Errors after which the task waits for `retry_seconds`.
    retried: ClassVar[type[OnrampError]] = InfrastructureError

    async def _go_on(self) -> None:
        while not self.stopped:
            try:
                await self._work_once()
            except self.retried as e:
                self._waits(e)
            await self.pause(self.retry_seconds)

    async def _work_once(self) -> None:
        session = await asyncio.to_thread(self._open)
        if session is None:
            self._stands_by()
            return
        try:
            await self._work(session)
        finally:
            await asyncio.to_thread(session.close)

    def _open(self) -> S | None:
        """Return a session, or None while another replica does the work; runs in a thread."""
        raise NotImplementedError

    async def _work(self, session: S) -> None:
        """Work until stopped; return for a new session."""
        raise NotImplementedError

    def _waits(self, error: OnrampError) -> None:
        """Report an error after which the task is retried."""
        raise NotImplementedError

    def _stands_by(self) -> None:
        """Record that another replica does the work."""
