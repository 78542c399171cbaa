"""The dead-letter ingester: follows `onramp.user_errors`, and stores every event once.

It starts at the offsets in the control database, and a repeated event is stored once.  So a log that was
truncated or recreated is read from its start without duplicates.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Final

from services.admin.background_tasks import SessionTask
from services.admin.dead_letters import quarantine_sql
from services.admin.dead_letters.read_ahead import ReadAhead, Slice
from services.admin.store.ingester_sql import IngesterSession
from services.ops.findings import Source
from services.ops.kafka_logs import FOLLOWING_WAIT_MS, KafkaLogs, LogRecord, no_leader
from services.ops.parked.parked_events import StoredEvent, stored_event
from shared import wire
from shared.errors import OnrampError
from shared.kafka_security import Brokers

log = logging.getLogger(__name__)

#: Seconds between checks for new partitions and truncated logs.
_CHECK_SECONDS: Final = 10.0
#: Seconds before a retry of Kafka or the database.
_RETRY_SECONDS: Final = 1.0
#: A slice below these sizes is followed by a pause: a transaction costs as much as hundreds of events, and
#: a busy writer would cause one for each of its batches.  The next poll then returns more.
_FEW: Final = 200
_SMALL_BYTES: Final = 256 << 10
GATHER_SECONDS: Final = 1.0
#: Seconds before quarantined events are retried.
_TRY_RETRY_SECONDS: Final = 3600.0


@dataclass(slots=True)
class IngesterStatus:
    """The ingester's state, for probes and metrics."""

    state: str = "starting"
    #: Why nothing is stored at present.
    reason: str = ""
    stored: int = 0
    #: Events that the control database refuses.
    quarantined: int = 0
    #: Records that were not read yet, as of the last poll; None before the first.
    behind: int | None = None
    _passed_over: set[Source] = field(default_factory=set)

    def is_first_of(self, source: Source) -> bool:
        """Return whether this is the first foreign record of its partition, and remember it."""
        first = source not in self._passed_over
        self._passed_over.add(source)
        return first


class DeadLetterIngester(SessionTask[IngesterSession]):
    """Stores events until stopped; is on standby while another replica is the ingester."""

    retry_seconds = _RETRY_SECONDS

    def __init__(self, brokers: Brokers, dsn: str) -> None:
        super().__init__()
        self.status = IngesterStatus()
        self._brokers = brokers
        self._dsn = dsn

    def _open(self) -> IngesterSession | None:
        return IngesterSession.open(self._dsn)

    def _stands_by(self) -> None:
        self._set_state("standby", "another admin service is the ingester")

    def _waits(self, error: OnrampError) -> None:
        self._set_state("waiting", error.detail)

    def _failed(self, error: Exception) -> None:
        self._set_state("waiting", f"failed with an unexpected error, see the log ({type(error).__name__})")

    async def _work(self, session: IngesterSession) -> None:
        tried_at = time.monotonic()
        self.status.quarantined = await asyncio.to_thread(quarantine_sql.try_again, session)
        async with KafkaLogs(self._brokers, fetch_wait_ms=FOLLOWING_WAIT_MS) as logs:
            while not self.stopped:
                await self._follow(logs, session)
                if time.monotonic() > tried_at + _TRY_RETRY_SECONDS:
                    return  # restarts, with the quarantined events

    async def _follow(self, logs: KafkaLogs, session: IngesterSession) -> None:
        """Store events of the current partitions until the next check for new partitions."""
        topics = await logs.named_topics(wire.USER_ERRORS)
        topic_ids = {name: topic.topic_id for name, topic in topics.items()}
        spans = await logs.spans_of(topics)
        since = await asyncio.to_thread(_begin, session, spans, topic_ids)
        self.status.behind = sum(end - since[source] for source, (_, end) in spans.items())
        if not spans:
            self._set_state("waiting", f"there is no topic {wire.USER_ERRORS} yet: the writer creates it")
            await self.pause(_RETRY_SECONDS)
            return
        lost = no_leader(logs.leaderless) if logs.leaderless else ""
        self.status.quarantined = await asyncio.to_thread(quarantine_sql.count, session)
        self._set_state("active", lost or _quarantined(self.status.quarantined))
        until, at = time.monotonic() + _CHECK_SECONDS, since
        async with ReadAhead(self._slices(logs, since)) as ahead:
            while not self.stopped and time.monotonic() < until and (found := await ahead.take()):
                if found.next_offsets != at:
                    self.status.stored += await asyncio.to_thread(quarantine_sql.keep, session, *found)
                    at = found.next_offsets
                    self.status.behind = sum(max(end - at[s], 0) for s, (_, end) in spans.items())
                    if _is_small(found):
                        await self.pause(GATHER_SECONDS)

    async def _slices(self, logs: KafkaLogs, since: Mapping[Source, int]) -> AsyncGenerator[Slice, None]:
        """Yield a slice for each poll, also when it is empty."""
        async for poll in logs.polls(since):
            events = await asyncio.to_thread(self._events, poll.records) if poll.records else []
            yield Slice(events, poll.next_offsets)

    def _events(self, records: list[LogRecord]) -> list[StoredEvent]:
        events = []
        for record in records:
            if event := stored_event(record):
                events.append(event)
            elif self.status.is_first_of(record.source):
                log.warning(
                    "skipped a record that Onramp did not write: another client writes to this topic",
                    extra={"record": f"{record.source}/{record.offset}"},
                )
        return events

    def _set_state(self, state: str, reason: str) -> None:
        if (self.status.state, self.status.reason) != (state, reason):
            log.info("ingester state changed", extra={"state": state, "reason": reason})
        self.status.state, self.status.reason = state, reason


def _is_small(found: Slice) -> bool:
    return len(found.events) < _FEW and sum(len(e.value or b"") for e in found.events) < _SMALL_BYTES


def _quarantined(events: int) -> str:
    if not events:
        return ""
    return (
        f"{events} events are quarantined because the control database refuses them "
        "(onramp_admin.quarantined and the log have the SQLSTATE): they are retried each hour, and when the "
        "service starts"
    )


def _begin(
    session: IngesterSession, spans: Mapping[Source, tuple[int, int]], topic_ids: Mapping[str, str]
) -> dict[Source, int]:
    """Return the start offset of each partition, and store the generation of its topic."""
    read_of = session.topic_ids()
    recreated = {source for source, read in read_of.items() if topic_ids.get(source.topic, read) != read}
    known = {source: at for source, at in session.next_offsets().items() if source not in recreated}
    since = starts(spans, known)
    for source in sorted(recreated & since.keys()):
        log.error(
            "topic was recreated: reading it from its start; stored events remain",
            extra={"partition": str(source), "first": since[source]},
        )
    new = {s: at for s, at in since.items() if topic_ids.get(s.topic, read_of.get(s)) != read_of.get(s)}
    if new:
        session.begin(new, topic_ids)
    return since


def starts(spans: Mapping[Source, tuple[int, int]], known: Mapping[Source, int]) -> dict[Source, int]:
    """Return the start offset of each partition: the stored one, or the log's start if out of range."""
    found = {}
    for source, (first, end) in spans.items():
        at = known.get(source, first)
        if not first <= at <= end:
            log.error(
                "log was truncated or recreated: reading it from its start; stored events remain",
                extra={"partition": str(source), "read_to": at, "first": first, "end": end},
            )
            at = first
        found[source] = at
    return found
