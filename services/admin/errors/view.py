"""What an operator sees of parked and waiting events: the last, how many, one, or all that come."""

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field, replace

from services.admin import books_sql
from services.admin.errors.records import (
    DIVERTED,
    DRAINED,
    PARKED,
    WAITING,
    ErrorEvent,
    diverted,
    held,
    parked,
)
from services.admin.findings import Source
from services.admin.kafka_logs import KafkaLogs, LogRecord
from shared import wire
from shared.errors import InfrastructureError


@dataclass(slots=True)
class ErrorView:
    """The events of both topics by their keys; repeats under one key are one event.

    `databases` (name to DSN) tell which of the diverted events have drained; without them that
    is unknown.
    """

    logs: KafkaLogs
    databases: Mapping[str, str]
    events: dict[str, ErrorEvent] = field(default_factory=dict)
    repeats: int = 0
    #: Why a database could not say what has drained.
    unknown: list[str] = field(default_factory=list)
    #: Partitions without a leader: what is there is not in the view.
    unread: list[Source] = field(default_factory=list)
    _ends: dict[Source, int] = field(default_factory=dict)
    _ledgers: dict[str, dict[Source, int]] = field(default_factory=dict)

    async def load(self) -> None:
        """Read both topics to where they end now.  Raises `InfrastructureError`."""
        spans = await self.logs.spans([wire.USER_ERRORS, wire.SYSTEM_ERRORS])
        self.unread = sorted(self.logs.leaderless)
        self._ends = {source: end for source, (_, end) in spans.items()}
        async for record in self.logs.read(spans):
            self._take(record)
        self._read_ledgers()
        self.events = {key: self._judged(event) for key, event in self.events.items()}

    async def follow(self) -> AsyncIterator[ErrorEvent]:
        """Yield new events as they come, forever.  Ends at once while there are no such topics."""
        if self._ends:
            async for record in self.logs.follow(self._ends):
                if event := self._take(record):
                    yield event

    def newest(self, count: int, events: Iterable[ErrorEvent]) -> list[ErrorEvent]:
        """Return the last `count` of `events`, the newest last."""
        ordered = sorted(events, key=lambda e: (e.timestamp, e.source, e.offset))
        return ordered[len(ordered) - min(count, len(ordered)) :]

    def _take(self, record: LogRecord) -> ErrorEvent | None:
        """Return the event of `record` if it is a new one."""
        event = parked(record) if record.source.topic == wire.USER_ERRORS else diverted(record)
        if not isinstance(event, ErrorEvent):
            return None
        if event.key in self.events:
            self.repeats += 1
            return None
        self.events[event.key] = event
        return event

    def _read_ledgers(self) -> None:
        for name, dsn in self.databases.items():
            try:
                ledger = books_sql.ledger_of(name, dsn)
                waiting = [held(name, row) for row in books_sql.waiting_of(name, dsn)]
            except InfrastructureError as e:  # the very time to look at what waits
                self.unknown.append(e.detail)
                continue
            self.events |= {event.key: event for event in waiting}
            # Of a topic that was recreated the furthest offset counts: this is a view, not the audit.
            self._ledgers[name] = {}
            for incarnation, next_offset in sorted(ledger.items(), key=lambda item: item[1]):
                self._ledgers[name][incarnation.source] = next_offset

    def _judged(self, event: ErrorEvent) -> ErrorEvent:
        """Return the event as waiting or drained: it waits until the ledger of its database has passed it."""
        if event.state == PARKED or event.destination not in self._ledgers:
            return event
        next_offset = self._ledgers[event.destination].get(event.source, 0)
        return replace(event, state=DRAINED if event.offset < next_offset else WAITING)


def of_kind(events: Iterable[ErrorEvent], kind: str) -> list[ErrorEvent]:
    """Return those that are parked, or those that wait (or may); empty `kind` means both.

    What has drained is no error any more.
    """
    wanted = {PARKED: {PARKED}, WAITING: {WAITING, DIVERTED}}.get(kind, {PARKED, WAITING, DIVERTED})
    return [e for e in events if e.state in wanted]
