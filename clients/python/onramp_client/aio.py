"""The asyncio client: the same threads send, and no call blocks the loop."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from types import TracebackType
from typing import Any, Final, Self, TypeVar, Unpack

from .callbacks import Callbacks, OnSettled
from .client import Onramp
from .events import Given, NewEvent, QueueFullError, Tally, Verdict, new_id

#: Maximum wait of a thread of the loop, so that one whose task was cancelled ends soon.
_SLICE_SECONDS: Final = 0.2
#: Events that are created or queued before other tasks of the loop can run.
_CHUNK: Final = 100

_T = TypeVar("_T")

#: An outcome, and the gateway's receipt or problem.
Delivery = tuple[str, dict[str, Any]]


class AsyncOnramp:
    """`Onramp` for one event loop: constructed, used and closed in it."""

    def __init__(
        self, url: str, key: str | None = None, *, on_settled: OnSettled | None = None, **options: Any
    ) -> None:
        """Take the options of `Onramp`; `on_settled` is called in the loop.

        Raises:
            RuntimeError: no loop is running.
            ValueError: the URL is not an http or https URL.
        """
        self._callbacks = _InLoop(on_settled)
        self._onramp = Onramp(url, key, callbacks=self._callbacks, **options)
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> Self:
        """Return the client; leaving the context closes it."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the client."""
        await self.close()

    @property
    def tally(self) -> Tally:
        """Return the number of events by outcome."""
        return self._onramp.tally

    async def send(self, event_name: str, payload: dict[str, Any], **given: Unpack[Given]) -> str:
        """Queue an event and return its id; wait while there is no room.

        Raises:
            ValueError, TypeError: the payload is not JSON, or the client is closed.
            OSError: the spool cannot be written; the event was not taken.
        """
        event: NewEvent = {**given, "event_name": event_name, "payload": payload}
        pairs = self._onramp.serialize([event])
        async with self._lock:  # In the order of calls.
            await self._queue(pairs)
        return pairs[0][0]

    async def send_many(self, events: Iterable[NewEvent]) -> list[str]:
        """Queue events in their order and return their ids; wait for room for each of them.

        Raises:
            ValueError, TypeError: a payload is not JSON, and none was taken; or the client is closed.
            OSError: the spool cannot be written; earlier events were taken. Events with ids of
                the caller may all be sent again.
        """
        many = [each async for chunk in _chunks(list(events)) for each in self._onramp.serialize(chunk)]
        async with self._lock:
            async for pairs in _chunks(many):
                await self._queue(pairs)
        return [event_id for event_id, _ in many]

    async def deliver(self, event_name: str, payload: dict[str, Any], **given: Unpack[Given]) -> Delivery:
        """Send an event like `send`; return its outcome and the gateway's receipt or problem."""
        event_id = given["id"] = given.get("id") or new_id()
        delivery = self._callbacks.promise(event_id)
        await self.send(event_name, payload, **given)
        return await asyncio.shield(delivery)

    async def flush(self, timeout_seconds: float | None = None) -> bool:
        """Wait until every event is settled; return whether all are, after at most `timeout_seconds`."""
        try:
            async with asyncio.timeout(timeout_seconds):
                while not await asyncio.to_thread(self._onramp.flush, _SLICE_SECONDS):
                    pass
        except TimeoutError:
            return False
        return True

    async def close(self, timeout_seconds: float = 30.0) -> Tally:
        """Flush for at most `timeout_seconds`, stop the threads, and return the tally."""
        return await asyncio.to_thread(self._onramp.close, timeout_seconds)

    async def _queue(self, events: list[tuple[str, bytes]]) -> None:
        while True:
            try:
                self._onramp.send_many_bytes(events)
            except QueueFullError as full:
                events = events[len(full.taken) :]
                await asyncio.to_thread(self._onramp.wait, _SLICE_SECONDS)
            else:
                return


async def _chunks(many: list[_T]) -> AsyncIterator[list[_T]]:
    """Yield items a few at a time, so that other tasks of the loop run in between."""
    for start in range(0, len(many), _CHUNK):
        yield many[start : start + _CHUNK]
        await asyncio.sleep(0)


class _InLoop(Callbacks):
    """Passes verdicts from the sending threads to the loop, a batch at a time."""

    def __init__(self, on_settled: OnSettled | None) -> None:
        super().__init__(on_settled)
        self._loop = asyncio.get_running_loop()
        self._promises: dict[str, asyncio.Future[Delivery]] = {}

    def promise(self, event_id: str) -> "asyncio.Future[Delivery]":
        """Return a future of the event's outcome; an equal id is the same event."""
        return self._promises.setdefault(event_id, self._loop.create_future())

    def report(self, verdicts: list[Verdict]) -> int:
        """Pass the verdicts to the loop; return the number not passed because it is closed."""
        try:
            self._loop.call_soon_threadsafe(self._report, verdicts)
        except RuntimeError:
            return len(verdicts)
        return 0

    def _report(self, verdicts: list[Verdict]) -> None:
        for event, outcome, document in verdicts:
            promise = self._promises.pop(event.id, None)
            if promise is not None and not promise.done():
                promise.set_result((outcome, document))
        super().report(verdicts)
