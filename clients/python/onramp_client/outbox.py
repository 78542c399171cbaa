"""The events that are not settled yet, and which of them go next; it knows no clock, thread or network."""

import heapq
import itertools
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from .events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much waits, how much goes in one request, and how long an event waits for company."""

    events: int
    bytes: int
    batch_events: int
    batch_bytes: int
    linger: float


@dataclass(slots=True, eq=False)
class Batch:
    """Events that are sent together; `said` is the last that was heard about them."""

    events: list[Event]
    attempts: int = 0
    due: float = 0.0
    said: dict[str, Any] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        """The lines to send."""
        return b"\n".join(event.body for event in self.events)

    @property
    def wake(self) -> float:
        """When it is due, or the first of its events given up."""
        return min(self.due, *(event.give_up_at for event in self.events))


class Outbox:
    """All that was taken and is not settled: fresh events, batches to be sent again, batches on their way."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.pending = 0
        self._bytes = 0
        self._batch_bytes = bounds.batch_bytes
        self._fresh: deque[tuple[float, Event]] = deque()
        self._fresh_bytes = 0
        self._again: list[tuple[float, int, Batch]] = []
        self._turn = itertools.count()
        self._flying: set[Batch] = set()

    def has_room(self, size: int) -> bool:
        """Whether an event of that size may come in; one alone always may."""
        if not self.pending:
            return True
        return self.pending < self.bounds.events and self._bytes + size <= self.bounds.bytes

    def add(self, event: Event, now: float) -> bool:
        """Take an event; returns whether somebody should look at it now."""
        size = len(event.body)
        self._fresh.append((now, event))
        self._fresh_bytes += size + 1
        self.pending += 1
        self._bytes += size
        waiting = len(self._fresh)
        if waiting == 1 or waiting == self.bounds.batch_events:  # noqa: PLR1714 - a set costs more than both
            return True
        return self._fresh_bytes >= self._batch_bytes > self._fresh_bytes - size - 1

    def take(self, now: float, *, hurry: bool) -> Batch | None:
        """The next batch to send, which counts as flying from now on."""
        batch = None
        if self._again and self._again[0][0] <= now:
            batch = heapq.heappop(self._again)[2]
        elif self._fresh and (hurry or self._is_full() or self._fresh[0][0] + self.bounds.linger <= now):
            batch = Batch(self._cut())
        if batch is not None:
            self._flying.add(batch)
        return batch

    def wait(self, now: float) -> float | None:
        """The seconds until a look is worth it; None: until something is added."""
        moments = [self._again[0][0]] if self._again else []
        if self._fresh:
            moments.append(self._fresh[0][0] + self.bounds.linger)
        return max(0.0, min(moments) - now) if moments else None

    def landed(self, batch: Batch) -> bool:
        """The batch flies no longer; False when it was abandoned meanwhile, and is not ours any more."""
        known = batch in self._flying
        self._flying.discard(batch)
        return known

    def put_back(self, batch: Batch) -> None:
        """Send these when they are due."""
        heapq.heappush(self._again, (batch.wake, next(self._turn), batch))

    def refused(self, size: int) -> None:
        """So many bytes were too many for something on the way: later batches are smaller."""
        self._batch_bytes = max(1, min(self._batch_bytes, size // 2))

    def settle(self, events: list[Event]) -> None:
        """These are settled, and told to whom it concerns."""
        self.pending -= len(events)
        self._bytes -= sum(len(event.body) for event in events)

    def abandon(self) -> list[tuple[Event, dict[str, Any]]]:
        """Everything that is left, with what was last heard about it; an answer for it comes too late."""
        batches = [*self._flying, *(batch for _, _, batch in self._again)]
        left = [(event, batch.said) for batch in batches for event in batch.events]
        left += [(event, {}) for _, event in self._fresh]
        self._flying.clear()
        self._again.clear()
        self._fresh.clear()
        self._fresh_bytes = 0
        return left

    def _is_full(self) -> bool:
        return len(self._fresh) >= self.bounds.batch_events or self._fresh_bytes >= self._batch_bytes

    def _cut(self) -> list[Event]:
        """At least one event, and as many more as fit."""
        events: list[Event] = []
        size = 0
        while self._fresh and len(events) < self.bounds.batch_events:
            more = len(self._fresh[0][1].body) + 1
            if events and size + more > self._batch_bytes:
                break
            events.append(self._fresh.popleft()[1])
            size += more
        self._fresh_bytes -= size
        return events
