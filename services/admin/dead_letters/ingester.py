"""The one keeper: reads `onramp.user_errors` as it grows, and keeps every event of it once.

It reads from where the control database says that it was; what it reads twice is one event.  So a log that
was cut or recreated is read again from its start, and nothing is kept twice.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Final

from services.admin.background_tasks import UntilStopped
from services.admin.dead_letters import quarantine_sql
from services.admin.dead_letters.read_ahead import ReadAhead, Slice
from services.admin.store.ingester_sql import IngesterSession
from services.ops.findings import Source
from services.ops.kafka_logs import KafkaLogs, LogRecord, no_leader
from services.ops.parked.parked_events import StoredEvent, stored_event
from shared import wire
from shared.errors import InfrastructureError
from shared.kafka_security import Brokers

log = logging.getLogger(__name__)

#: New partitions, and a log that was cut, are seen after so long.
_LOOK_SECONDS: Final = 10.0
#: Until Kafka or the database is tried again.
_AGAIN_SECONDS: Final = 1.0
#: After less than that the next events are waited for: a transaction costs as much as hundreds of them, and
#: beside a writer in full flow there would be one for each of its batches.  A poll of what waits brings more.
_FEW: Final = 200
_LITTLE_BYTES: Final = 256 << 10
GATHER_SECONDS: Final = 1.0
#: Until what the database has refused is tried again.
_TRY_AGAIN_SECONDS: Final = 3600.0


@dataclass(slots=True)
class IngesterStatus:
    """What the service says of its ingester."""

    state: str = "starting"
    #: Why it does not keep just now.
    reason: str = ""
    stored: int = 0
    #: Events that the control database refuses.
    quarantined: int = 0
    #: Records that it has not read yet, as of its last look; None before the first.
    behind: int | None = None
    _passed_over: set[Source] = field(default_factory=set)

    def is_first_of(self, source: Source) -> bool:
        """Whether no foreign record of this partition has been told yet."""
        first = source not in self._passed_over
        self._passed_over.add(source)
        return first


class DeadLetterIngester(UntilStopped):
    """Keeps until it is stopped; while another service keeps, it stands by."""

    def __init__(self, brokers: Brokers, dsn: str) -> None:
        super().__init__()
        self.status = IngesterStatus()
        self._brokers = brokers
        self._dsn = dsn

    async def _go_on(self) -> None:
        """Keep; tries again for as long as Kafka or the database is out."""
        while not self.stopped:
            try:
                await self._keep()
            except InfrastructureError as e:
                self._tell("waiting", e.detail)
            await self.pause(_AGAIN_SECONDS)

    def _failed(self, error: Exception) -> None:
        self._tell("waiting", f"it fails for a reason that is in the log ({type(error).__name__})")

    async def _keep(self) -> None:
        session = await asyncio.to_thread(IngesterSession.open, self._dsn)
        if session is None:
            self._tell("standby", "another admin service keeps what is parked")
            return
        try:
            tried_at = time.monotonic()
            self.status.quarantined = await asyncio.to_thread(quarantine_sql.try_again, session)
            async with KafkaLogs(self._brokers) as logs:
                while not self.stopped:
                    await self._follow(logs, session)
                    if time.monotonic() > tried_at + _TRY_AGAIN_SECONDS:
                        return  # begins again, with what was set aside
        finally:
            await asyncio.to_thread(session.close)

    async def _follow(self, logs: KafkaLogs, session: IngesterSession) -> None:
        """Keep what comes on the partitions that there are now, for a while."""
        topic_ids = await logs.topic_ids()
        spans = await logs.spans([wire.USER_ERRORS])
        since = await asyncio.to_thread(_begin, session, spans, topic_ids)
        self.status.behind = sum(end - since[source] for source, (_, end) in spans.items())
        if not spans:
            self._tell("waiting", f"there is no topic {wire.USER_ERRORS} yet: the writer makes it")
            await self.pause(_AGAIN_SECONDS)
            return
        lost = no_leader(logs.leaderless) if logs.leaderless else ""
        self.status.quarantined = await asyncio.to_thread(quarantine_sql.count, session)
        self._tell("keeping", lost or _set_aside(self.status.quarantined))
        until, at = time.monotonic() + _LOOK_SECONDS, since
        async with ReadAhead(self._slices(logs, since)) as ahead:
            while not self.stopped and time.monotonic() < until and (found := await ahead.take()):
                if found.next_offsets != at:
                    self.status.stored += await asyncio.to_thread(quarantine_sql.keep, session, *found)
                    at = found.next_offsets
                    self.status.behind = sum(max(end - at[s], 0) for s, (_, end) in spans.items())
                    if _is_little(found):
                        await self.pause(GATHER_SECONDS)

    async def _slices(self, logs: KafkaLogs, since: Mapping[Source, int]) -> AsyncGenerator[Slice, None]:
        """Yield what each poll brings, also when that is nothing."""
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
                    "a record is none of Onramp's and is passed over: somebody else writes to this topic",
                    extra={"record": f"{record.source}/{record.offset}"},
                )
        return events

    def _tell(self, state: str, reason: str) -> None:
        if (self.status.state, self.status.reason) != (state, reason):
            log.info("the ingester's state changed", extra={"state": state, "reason": reason})
        self.status.state, self.status.reason = state, reason


def _is_little(found: Slice) -> bool:
    return len(found.events) < _FEW and sum(len(e.value or b"") for e in found.events) < _LITTLE_BYTES


def _set_aside(events: int) -> str:
    if not events:
        return ""
    return (
        f"{events} events are set aside, which the control database refuses (onramp_admin.set_aside and the "
        "log say by which SQLSTATE): they are tried again each hour, and when the service starts"
    )


def _begin(
    session: IngesterSession, spans: Mapping[Source, tuple[int, int]], topic_ids: Mapping[str, str]
) -> dict[Source, int]:
    """Return from where to read each partition, and note of which incarnation of its topic that is."""
    read_of = session.topic_ids()
    recreated = {source for source, read in read_of.items() if topic_ids.get(source.topic, read) != read}
    known = {source: at for source, at in session.next_offsets().items() if source not in recreated}
    since = starts(spans, known)
    for source in sorted(recreated & since.keys()):
        log.error(
            "Kafka's topic was recreated: it is read from its start, and what was kept stays",
            extra={"partition": str(source), "first": since[source]},
        )
    new = {s: at for s, at in since.items() if topic_ids.get(s.topic, read_of.get(s)) != read_of.get(s)}
    if new:
        session.begin(new, topic_ids)
    return since


def starts(spans: Mapping[Source, tuple[int, int]], known: Mapping[Source, int]) -> dict[Source, int]:
    """Return from where to read each partition: where it was, or if that is not there, its start."""
    found = {}
    for source, (first, end) in spans.items():
        at = known.get(source, first)
        if not first <= at <= end:
            log.error(
                "Kafka's log was cut or recreated: it is read from its start, and what was kept stays",
                extra={"partition": str(source), "read_to": at, "first": first, "end": end},
            )
            at = first
        found[source] = at
    return found
