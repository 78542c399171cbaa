"""The unsettled events and the choice of the next batch; without clock, thread or network."""

import heapq
import itertools
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from .events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The limits of the queue and of a request, and how long an event waits for others."""

    events: int
    bytes: int
    batch_events: int
    batch_bytes: int
    linger_seconds: float


@dataclass(slots=True, eq=False)
class Batch:
    """Events that are sent together; `problem` is the last attempt's problem."""

    events: list[Event]
    attempts: int = 0
    due: float = 0.0
    problem: dict[str, Any] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        """Return the lines to send."""
        return b"\n".join(event.body for event in self.events)

    @property
    def wake(self) -> float:
        """Return the time at which the batch is due or the first of its events is given up."""
        return min(self.due, *(event.give_up_at for event in self.events))


class Outbox:
    """All unsettled events: new ones, those in batches to retry, those in flight."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.pending = 0
        self._bytes = 0
        self._batch_bytes = bounds.batch_bytes
        self._new: deque[tuple[float, Event]] = deque()
        self._new_bytes = 0
        self._retries: list[tuple[float, int, Batch]] = []
        self._sequence = itertools.count()
        self._in_flight: set[Batch] = set()

    def has_room(self, size: int) -> bool:
        """Return whether there is room for an event of `size` bytes; always True if empty."""
        if not self.pending:
            return True
        return self.pending < self.bounds.events and self._bytes + size <= self.bounds.bytes

    def add(self, event: Event, now: float) -> bool:
        """Add an event; return whether a thread should look for a batch now."""
        size = len(event.body)
        self._new.append((now, event))
        self._new_bytes += size + 1
        self.pending += 1
        self._bytes += size
        waiting = len(self._new)
        if waiting == 1 or waiting == self.bounds.batch_events:  # noqa: PLR1714 - a set costs more than both
            return True
        return self._new_bytes >= self._batch_bytes > self._new_bytes - size - 1

    def next_batch(self, now: float, *, flush: bool) -> Batch | None:
        """Return the next batch, which is then in flight; with `flush`, events do not linger."""
        batch = None
        if self._retries and self._retries[0][0] <= now:
            batch = heapq.heappop(self._retries)[2]
        elif self._new and (flush or self._is_full() or self._new[0][0] + self.bounds.linger_seconds <= now):
            batch = Batch(self._next_events())
        if batch is not None:
            self._in_flight.add(batch)
        return batch

    def delay(self, now: float) -> float | None:
        """Return the seconds until a batch may be due; None: not before an event is added."""
        times = [self._retries[0][0]] if self._retries else []
        if self._new:
            times.append(self._new[0][0] + self.bounds.linger_seconds)
        return max(0.0, min(times) - now) if times else None

    def finish(self, batch: Batch) -> bool:
        """Record that the batch is no longer in flight; return False if it was abandoned meanwhile."""
        known = batch in self._in_flight
        self._in_flight.discard(batch)
        return known

    def retry(self, batch: Batch) -> None:
        """Send the batch again when it is due."""
        heapq.heappush(self._retries, (batch.wake, next(self._sequence), batch))

    def shrink_batches(self, size: int) -> None:
        """Make later batches smaller: `size` bytes were too many for the gateway or a proxy."""
        self._batch_bytes = max(1, min(self._batch_bytes, size // 2))

    def settle(self, events: list[Event]) -> None:
        """Remove settled events, after their callback was called."""
        self.pending -= len(events)
        self._bytes -= sum(len(event.body) for event in events)

    def abandon(self) -> list[tuple[Event, dict[str, Any]]]:
        """Remove and return all events, each with its last problem; later answers are ignored."""
        batches = [*self._in_flight, *(batch for _, _, batch in self._retries)]
        unsettled = [(event, batch.problem) for batch in batches for event in batch.events]
        unsettled += [(event, {}) for _, event in self._new]
        self._in_flight.clear()
        self._retries.clear()
        self._new.clear()
        self._new_bytes = 0
        return unsettled

    def _is_full(self) -> bool:
        return len(self._new) >= self.bounds.batch_events or self._new_bytes >= self._batch_bytes

    def _next_events(self) -> list[Event]:
        """Remove and return at least one new event, and as many more as fit."""
        events: list[Event] = []
        size = 0
        while self._new and len(events) < self.bounds.batch_events:
            more = len(self._new[0][1].body) + 1
            if events and size + more > self._batch_bytes:
                break
            events.append(self._new.popleft()[1])
            size += more
        self._new_bytes -= size
        return events
