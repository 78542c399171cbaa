"""The newest parked and diverted events, from the ends of both topics, with bounded memory."""

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from services.ops.findings import Source
from services.ops.kafka_logs import KafkaLogs, LogRecord
from services.ops.parked.records import (
    DIVERTED,
    DRAINED,
    PARKED,
    WAITING,
    ErrorEvent,
    diverted,
    parked,
)
from shared import wire

#: An end may hold markers, repeats and drained events: number and factor of further reads backwards.
_FURTHER: Final = 10
_FURTHEST: Final = 100_000
#: Keys to remember: a repeat follows soon, after an interrupted relay or batch.
_MAX_REMEMBERED: Final = 1_000
#: The topic by kind of event.
_TOPICS: Final = {PARKED: (wire.USER_ERRORS,), WAITING: (wire.SYSTEM_ERRORS,)}


@dataclass(slots=True)
class ErrorTail:
    """The ends of both topics.  Repeats under one key are one event.

    `ledgers` (by database, the next offset of each partition) determine which diverted events have drained;
    without its ledger this is unknown.
    """

    logs: KafkaLogs
    ledgers: Mapping[str, Mapping[Source, int]]
    #: Partitions without a leader, whose records are missing.
    unread: list[Source] = field(default_factory=list)
    _ends: dict[Source, int] = field(default_factory=dict)
    _known: dict[str, None] = field(default_factory=dict)

    async def last(self, count: int, kind: str = "") -> list[ErrorEvent]:
        """Return the last `count` events of `kind` (empty: of both), the newest last.

        Raises `InfrastructureError`.
        """
        spans = await self.logs.spans(_TOPICS.get(kind, (wire.USER_ERRORS, wire.SYSTEM_ERRORS)))
        self.unread = sorted(self.logs.leaderless)
        self._ends = {source: end for source, (_, end) in spans.items()}
        back, found = max(count, 1), list[ErrorEvent]()
        while count:
            window = {s: (max(first, end - back), end) for s, (first, end) in spans.items()}
            found, begins = await self._newest(window, count, kind)
            cut = [source for source in spans if window[source] != spans[source]]
            # Before the markers at one partition's end may be newer events than those of another.
            is_last = len(found) == count and all(begins[s] <= found[0].timestamp for s in cut)
            if is_last or not cut or back >= _FURTHEST:
                break
            back *= _FURTHER
        for event in found:
            self._is_new(event)
        return found

    async def follow(self, kind: str = "") -> AsyncIterator[ErrorEvent]:
        """Yield new events forever.  Ends at once while the topics do not exist."""
        async for record in self.logs.follow(self._ends):
            event = _event_of(record)
            if event and _is_of(event, kind) and self._is_new(event):
                yield event

    async def _newest(
        self, window: Mapping[Source, tuple[int, int]], count: int, kind: str
    ) -> tuple[list[ErrorEvent], Mapping[Source, int]]:
        """Return the newest of `window`, and the time at which each partition's part of it begins."""
        newest: dict[str, ErrorEvent] = {}
        begins: dict[Source, int] = defaultdict(int)
        async for record in self.logs.read(window):
            begins.setdefault(record.source, record.timestamp)
            event = _event_of(record)
            if event and event.key not in newest and _is_of(event := self._judged(event), kind):
                newest[event.key] = event
            if len(newest) > 2 * count:
                newest = {e.key: e for e in _last(newest, count)}
        return _last(newest, count), begins

    def _judged(self, event: ErrorEvent) -> ErrorEvent:
        """Return the event as waiting or drained: it waits until its database's ledger has passed it."""
        if event.state == PARKED or event.destination not in self.ledgers:
            return event
        next_offset = self.ledgers[event.destination].get(event.source, 0)
        return replace(event, state=DRAINED if event.offset < next_offset else WAITING)

    def _is_new(self, event: ErrorEvent) -> bool:
        is_new = event.key not in self._known
        self._known[event.key] = None
        if len(self._known) > _MAX_REMEMBERED:
            del self._known[next(iter(self._known))]
        return is_new


def _event_of(record: LogRecord) -> ErrorEvent | None:
    event = parked(record) if record.source.topic == wire.USER_ERRORS else diverted(record)
    return event if isinstance(event, ErrorEvent) else None


def _is_of(event: ErrorEvent, kind: str) -> bool:
    """Return whether it is parked or may wait; a drained event is no longer an error."""
    wanted = {PARKED: {PARKED}, WAITING: {WAITING, DIVERTED}}.get(kind, {PARKED, WAITING, DIVERTED})
    return event.state in wanted


def _last(events: Mapping[str, ErrorEvent], count: int) -> list[ErrorEvent]:
    ordered = sorted(events.values(), key=lambda e: (e.timestamp, e.source, e.offset))
    return ordered[-count:]
