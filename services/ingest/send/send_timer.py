"""Schedules sends: the batches of all queues together, one linger apart, and at once after a pause.

aiokafka sends its batches as soon as a broker is free, one request at a time, and its own linger
is per batch: with a queue per partition almost every single event would be a separate produce
request. Batches that are sent together share a request per broker, and stay open until then.
"""

import asyncio
import math
from typing import Protocol

from services.ingest.send.kafka_producer import ProducerInstance, ProducerManager


class ScheduledQueue(Protocol):
    """A queue with a waiting batch."""

    def send_next(self, instance: ProducerInstance) -> None:
        """Start sending the oldest batch through `instance`."""
        ...


class SendTimer:
    """Sends the waiting batches of all queues together, at least `linger_seconds` after the last time."""

    def __init__(self, producers: ProducerManager, linger_seconds: float) -> None:
        self._producers = producers
        self._linger_seconds = linger_seconds
        self._queues: dict[ScheduledQueue, None] = {}
        self._last = -math.inf
        self._next: asyncio.Handle | None = None
        self._waiting: asyncio.Task[None] | None = None
        self._closed = False

    def schedule(self, queue: ScheduledQueue, *, full: bool) -> None:
        """Schedule `queue` for the next send, which is now if its oldest batch is full."""
        self._queues[queue] = None
        if self._waiting is not None or self._closed or (self._next is not None and not full):
            return
        loop = asyncio.get_running_loop()
        due = self._last + self._linger_seconds
        if full or due <= loop.time():
            self._cancel()
            self._next = loop.call_soon(self._fire)
        else:
            self._next = loop.call_at(due, self._fire)

    async def stop(self) -> None:
        """Stop sending."""
        self._closed = True
        self._cancel()
        if self._waiting is not None:
            self._waiting.cancel()
            await asyncio.wait([self._waiting])

    def _cancel(self) -> None:
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _fire(self) -> None:
        self._next = None
        instance = self._producers.instance
        if instance is None:
            self._waiting = asyncio.create_task(self._fire_when_ready())
            return
        self._last = asyncio.get_running_loop().time()
        queues, self._queues = self._queues, {}
        for queue in queues:
            queue.send_next(instance)

    async def _fire_when_ready(self) -> None:
        await self._producers.current()
        self._waiting = None
        self._fire()
