"""Collects waiting events with reason, time and next step from databases, the running writer and Kafka."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from services.cli.connection_options import Where
from services.cli.exits import complain

if TYPE_CHECKING:
    from services.cli.writer_status import WriterStatus
    from services.ops.operate.holds_sql import Held
    from services.ops.operate.unsettled_offsets import Unsettled

Entries = list[dict[str, Any]]
#: The event that ends the waiting, by the state of a hold or a database.
_NEXT: Final = {
    "blocked": "the writer tries again by itself, after {most:.0f} seconds at most",
    "paused": "when an operator resumes it: `onramp types resume {name}`",
    "dead_lettered": "it is parked now",
    "resumed": "it lands now",
    "out": "the writer tries again by itself, after {most:.0f} seconds at most",
    "draining": "it lands now",
    "halted": "when an operator resolves it: `onramp databases list`",
    "not configured": "when it is configured again under that name",
}
_NO_WRITER: Final = "when a writer runs"


def waiting_report(where: Where, writer: str) -> tuple[dict[str, Entries], bool]:
    """Return holds, databases and backlogs, and whether all queries were answered."""
    status = _status(writer)
    holds, all_answer = _holds(where, is_running=status is not None)
    unsettled = _unsettled(where)
    found = {
        "holds": holds,
        "databases": _databases(status) if status else [],
        "unsettled": [_topic(each) for each in unsettled or ()],
    }
    return found, all_answer and status is not None and unsettled is not None


def _status(url: str) -> "WriterStatus | None":
    """Return the writer's status; print an error and return None if it does not answer."""
    from services.cli.writer_status import WriterStatus
    from stack.errors import UnavailableError

    try:
        return WriterStatus.of(url)
    except UnavailableError as error:
        complain(f"{error} What waits on Kafka is unknown without a writer: start it with `onramp writer`")
        return None


def _holds(where: Where, *, is_running: bool) -> tuple[Entries, bool]:
    """Return the holds of all databases, and whether all answered."""
    from services.ops.operate import holds_sql
    from shared.errors import InfrastructureError

    found: Entries = []
    all_answer = True
    for name, dsn in where.databases.items():
        try:
            found += [_hold(held, is_running=is_running) for held in holds_sql.holds(name, dsn)]
        except InfrastructureError as error:
            complain(f"{error.detail}: its holds are unknown")
            all_answer = False
    return found, all_answer


def _hold(held: "Held", *, is_running: bool) -> dict[str, Any]:
    from shared.errors import PAUSED, TABLE_BLOCKED

    fault = TABLE_BLOCKED if held.kind == "table" else PAUSED
    why = f"{fault.title} SQLSTATE {held.sqlstate}." if held.sqlstate else fault.title
    return held.as_dict() | {"why": why, "next": _next(held.state, held.name, is_running=is_running)}


def _databases(status: "WriterStatus") -> Entries:
    """Return the databases that are not landing, or for which events wait on Kafka."""
    document, now = status.document, datetime.now(UTC)
    states = document["databases"] | dict.fromkeys(document["unknown_databases"], "not configured")
    found = []
    for name, state in sorted(states.items()):
        events = int(status.on_kafka.get(name, 0))
        seconds = status.oldest.get(name, 0.0)
        if state == "landing" and not events:
            continue
        entry = {"database": name, "state": state, "since": document["since"].get(name)}
        entry |= {"why": document["reasons"].get(name), "waiting": events}
        entry["oldest"] = (now - timedelta(seconds=seconds)).isoformat() if seconds else None
        found.append(entry | {"next": _next(state, name, is_running=True)})
    return found


def _next(state: str, name: str, *, is_running: bool) -> str:
    from shared.backoff import MAX_SECONDS

    said = _NEXT.get(state, "") if is_running or state == "paused" else _NO_WRITER
    return said.format(name=name, most=MAX_SECONDS)


def _unsettled(where: Where) -> "list[Unsettled] | None":
    """Return unsettled offsets; print an error and return None if Kafka does not answer."""
    from shared.errors import InfrastructureError

    try:
        return asyncio.run(_ask(where))
    except InfrastructureError as error:
        complain(error.detail)
        return None


async def _ask(where: Where) -> "list[Unsettled]":
    from services.ops.kafka_logs import KafkaLogs, no_leader
    from services.ops.operate.unsettled_offsets import unsettled

    async with KafkaLogs(where.brokers) as logs:
        found = await unsettled(logs)
        if logs.leaderless:
            complain(f"{no_leader(logs.leaderless)}; what is there is not counted")
        return found


def _topic(of: "Unsettled") -> dict[str, Any]:
    oldest = None if of.oldest_ms is None else datetime.fromtimestamp(of.oldest_ms / 1000, UTC).isoformat()
    hours = None if of.hours is None else round(of.hours, 1)
    entry = {"topic": of.topic, "offsets": of.offsets, "oldest": oldest, "deleted_in_hours": hours}
    return entry | {"deleted_by_size": of.by_size}
