"""When flights leave: those of all lanes together, a tick apart, and at once after a pause.

aiokafka sends what it has as soon as a broker is free, one request at a time, and its own linger
is per batch: with a lane per partition almost every single event would be a produce request of
its own.  Flights that leave together share a request for each broker, and stay open until then.
"""

import asyncio
import math
from typing import Protocol

from services.ingest.send.kafka_producer import ProducerInstance, ProducerManager


class Departing(Protocol):
    """A lane with a flight that waits."""

    def depart(self, generation: ProducerInstance) -> None:
        """Send it now."""
        ...


class Departures:
    """One departure for all lanes, at least `linger_seconds` after the last."""

    def __init__(self, producers: ProducerManager, linger_seconds: float) -> None:
        self._producers = producers
        self._linger_seconds = linger_seconds
        self._lanes: dict[Departing, None] = {}
        self._last = -math.inf
        self._next: asyncio.Handle | None = None
        self._waiting: asyncio.Task[None] | None = None
        self._closed = False

    def want(self, lane: Departing, *, full: bool) -> None:
        """Have the lane leave with the next departure, which is now if its flight is full."""
        self._lanes[lane] = None
        if self._waiting is not None or self._closed:
            return
        loop = asyncio.get_running_loop()
        due = self._last + self._linger_seconds
        if full or due <= loop.time():
            self._cancel()
            self._next = loop.call_soon(self._leave)
        elif self._next is None:
            self._next = loop.call_at(due, self._leave)

    async def stop(self) -> None:
        """Let nobody leave any more."""
        self._closed = True
        self._cancel()
        if self._waiting is not None:
            self._waiting.cancel()
            await asyncio.wait([self._waiting])

    def _cancel(self) -> None:
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _leave(self) -> None:
        self._next = None
        generation = self._producers.generation
        if generation is None:
            self._waiting = asyncio.create_task(self._leave_when_ready())
            return
        self._last = asyncio.get_running_loop().time()
        lanes, self._lanes = self._lanes, {}
        for lane in lanes:
            lane.depart(generation)

    async def _leave_when_ready(self) -> None:
        await self._producers.current()
        self._waiting = None
        self._leave()
