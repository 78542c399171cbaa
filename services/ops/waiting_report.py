"""Collects waiting events with reason, time and next step from databases, the running writer and Kafka."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from services.ops.findings import Source
from services.ops.kafka_logs import KafkaLogs, no_leader
from services.ops.operate.holds_sql import Hold, holds
from services.ops.operate.unsettled_offsets import Unsettled, unsettled
from shared.backoff import MAX_SECONDS
from shared.errors import PAUSED, TABLE_BLOCKED, InfrastructureError
from shared.figures import STATE_NOT_CONFIGURED, WriterDatabase, WriterFigures, landing_writer
from shared.kafka_security import Brokers
from shared.service_pages import PageError, read_figures

#: The event that ends the waiting, by the state of a hold or a database.
_NEXT_STEPS: Final = {
    "blocked": "the writer tries again by itself, after {max_seconds:.0f} seconds at most",
    "paused": "when an operator resumes it: `onramp types resume {name}`",
    "dead_lettered": "it is parked now",
    "resumed": "it lands now",
    "out": "the writer tries again by itself, after {max_seconds:.0f} seconds at most",
    "draining": "it lands now",
    "halted": "when an operator resolves it: `onramp databases list`",
    STATE_NOT_CONFIGURED: "when it is configured again under that name",
}
_NO_WRITER: Final = "when a writer runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingHold:
    """A hold, the reason for it, and the next step, which ends it."""

    hold: Hold
    reason: str
    next_step: str

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        return self.hold.as_dict() | {"why": self.reason, "next": self.next_step}


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingDatabase:
    """A database that is not landing, or for which events wait on Kafka."""

    database: str
    state: str
    #: None for a database that is landing or not configured.
    since: datetime | None
    reason: str | None
    waiting: int
    oldest: datetime | None
    next_step: str

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        return {
            "database": self.database,
            "state": self.state,
            "since": _iso(self.since),
            "why": self.reason,
            "waiting": self.waiting,
            "oldest": _iso(self.oldest),
            "next": self.next_step,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingReport:
    """All waiting events: behind holds, for databases, and unsettled on Kafka."""

    holds: Sequence[WaitingHold]
    databases: Sequence[WaitingDatabase]
    unsettled: Sequence[Unsettled]
    #: Sentences on queries that failed and on partitions without a leader.
    problems: Sequence[str]
    #: Whether the writer, each database and Kafka answered.
    is_whole: bool
    #: Time of the unsettled offsets; None if Kafka has not answered.
    unsettled_at: datetime | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is known to wait."""
        return not (self.holds or self.databases or self.unsettled)

    def as_dict(self) -> dict[str, list[dict[str, Any]]]:
        """Return the waiting events as a JSON document."""
        return {
            "holds": [each.as_dict() for each in self.holds],
            "databases": [each.as_dict() for each in self.databases],
            "unsettled": [each.as_dict() for each in self.unsettled],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsettledReading:
    """The unsettled offsets at one time; not whole if Kafka does not answer now, or lacks a leader."""

    at: datetime | None = None
    topics: Sequence[Unsettled] = ()
    problem: str = ""
    is_whole: bool = True


#: Returns the unsettled offsets.
ReadUnsettled = Callable[[], Awaitable[UnsettledReading]]


async def collect_waiting(
    brokers: Brokers,
    databases: Mapping[str, str],
    writers: Sequence[str],
    *,
    read_offsets: ReadUnsettled | None = None,
) -> WaitingReport:
    """Query the writers at these URLs, the databases (DSNs by name) and Kafka at the same time.

    A query that fails is a problem of the report.  `read_offsets` returns the unsettled offsets, by default
    from Kafka, with a client of its own.
    """
    problems: list[str] = []
    figures, hold_lists, offsets = await asyncio.gather(
        _landing(writers, problems),
        asyncio.gather(*(asyncio.to_thread(_holds, *each, problems) for each in databases.items())),
        read_offsets() if read_offsets else _unsettled(brokers),
    )
    problems += [offsets.problem] if offsets.problem else []
    is_running = figures is not None
    return WaitingReport(
        holds=[_waiting_hold(each, is_running=is_running) for some in hold_lists for each in some or ()],
        databases=waiting_databases(figures.databases) if figures else [],
        unsettled=offsets.topics,
        unsettled_at=offsets.at,
        problems=problems,
        is_whole=is_running and offsets.is_whole and all(some is not None for some in hold_lists),
    )


async def _landing(urls: Sequence[str], problems: list[str]) -> WriterFigures | None:
    """Return the figures of the writer that lands events, or None, with a problem, if no writer answers."""
    answers = await asyncio.gather(*(asyncio.to_thread(_figures, url) for url in urls))
    writer = landing_writer(each for each in answers if not isinstance(each, str))
    if writer is None:
        problems += [
            f"{each} Events that wait on Kafka are unknown without a writer: start it with `onramp writer`"
            for each in answers or ["No URL of a writer is configured (ONRAMP_WRITER_URLS)."]
        ]
    return writer


def _figures(url: str) -> WriterFigures | str:
    """Return the figures of a writer, or why they cannot be read."""
    try:
        return read_figures(url, WriterFigures)
    except PageError as error:
        return str(error)


def _holds(name: str, dsn: str, problems: list[str]) -> list[Hold] | None:
    try:
        return holds(name, dsn)
    except InfrastructureError as error:
        problems.append(f"{error.detail}: its holds are unknown")
        return None


async def _unsettled(brokers: Brokers) -> UnsettledReading:
    try:
        async with KafkaLogs(brokers) as logs:
            topics = await unsettled(logs)
            return UnsettledReading(at=datetime.now(UTC), topics=topics, problem=not_counted(logs.leaderless))
    except InfrastructureError as error:
        return UnsettledReading(problem=error.detail, is_whole=False)


def not_counted(leaderless: Collection[Source]) -> str:
    """Return a sentence about partitions without a leader, whose offsets are unknown; empty without any."""
    return f"{no_leader(leaderless)}; its offsets are not counted" if leaderless else ""


def _waiting_hold(hold: Hold, *, is_running: bool) -> WaitingHold:
    fault = TABLE_BLOCKED if hold.kind == "table" else PAUSED
    reason = f"{fault.title} SQLSTATE {hold.sqlstate}." if hold.sqlstate else fault.title
    next_step = _next_step(hold.state, hold.name, is_running=is_running)
    return WaitingHold(hold=hold, reason=reason, next_step=next_step)


def waiting_databases(databases: Mapping[str, WriterDatabase]) -> list[WaitingDatabase]:
    """Return the databases of a running writer that are not landing, or for which events wait on Kafka."""
    now = datetime.now(UTC)
    return [
        WaitingDatabase(
            database=name,
            state=each.state,
            since=datetime.fromisoformat(each.since) if each.since else None,
            reason=each.reason,
            waiting=each.waiting_kafka,
            oldest=now - timedelta(seconds=each.oldest_kafka_seconds) if each.oldest_kafka_seconds else None,
            next_step=_next_step(each.state, name, is_running=True),
        )
        for name, each in sorted(databases.items())
        if each.state != "landing" or each.waiting_kafka
    ]


def _next_step(state: str, name: str, *, is_running: bool) -> str:
    step = _NEXT_STEPS.get(state, "") if is_running or state == "paused" else _NO_WRITER
    return step.format(name=name, max_seconds=MAX_SECONDS)


def _iso(time: datetime | None) -> str | None:
    return time.isoformat() if time else None
