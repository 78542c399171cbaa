"""The messages of halted partitions: the reason, and the operator's fix."""

from collections.abc import Iterable
from typing import Final

from services.writer.model.next_offsets import Position
from shared import wire
from shared.kafka_read.offsets import Partition

RECREATED: Final = "the topic was deleted and recreated: its offsets start at 0 again"
FROM_ITS_START: Final = (
    "to read the topic from its start, delete the group's offset of it and restart the writer"
)
RESTART: Final = "restart: a topic that has this name then is read from its start"
CONFIGURE: Final = "configure the database again under that name, at its new address, and restart"


def cut(start: int, furthest: int) -> str:
    """Return the reason for a Kafka log that ends below the settled offset `furthest`."""
    return (
        f"Kafka's log was cut at {start} and what is above was lost or written again: {furthest} are settled"
    )


def no_such_epoch(epoch: int, next_offset: int) -> str:
    """Return the reason for a log whose settled part cannot be identified."""
    return (
        f"the leader knows no leader epoch as late as {epoch}, which {wire.SETTLED} names: the lost part of "
        "Kafka's log is unknown, or another client wrote that epoch; the remaining log continues at "
        f"{next_offset}"
    )


def deleted(position: Position, log_start: int) -> str:
    """Return the reason for events that retention or an operator deleted."""
    return f"Kafka deleted [{position.next_offset}, {log_start}) before it was settled"


def unknown(databases: str) -> str:
    """Return the reason for an unfinished plan whose databases are not configured."""
    return f"a writer began events for {databases}, which is not configured"


def lost_routes(digests: str) -> str:
    """Return the reason for an unfinished plan whose routes are unknown."""
    return f"a writer began events under the routes {digests}, which {wire.SETTLED} does not have"


def unforeseen(offset: int, kind: str) -> str:
    """Return the reason for a record at which the writer fails."""
    return f"the writer fails at offset {offset} for a reason that it does not know: {kind}"


def accept(p: Partition) -> str:
    """Return the fix: an operator decides to continue."""
    return f"to continue with the events that Kafka has: onramp partitions resolve {p} accept"


def try_again(p: Partition, offset: int) -> str:
    """Return the fix: another release of the writer, or skipping the record."""
    return (
        "report the exception; the partition is retried automatically, also after a restart with a release "
        f"that fixes it. {_skip(p, offset)}"
    )


def lethal(start: int, end: int, crashes: int) -> str:
    """Return the reason for a record that probably crashes writers; the last one read only these offsets."""
    if end - start == 1:
        return f"{crashes} writers were killed at offset {start}, and the last one read only this offset"
    return f"{crashes} writers were killed at one of the offsets {start} to {end - 1}: bisecting the range"


def lethal_fix(p: Partition, start: int, end: int) -> str:
    """Return the fix: a fixed writer, more memory, or skipping the record."""
    if end - start > 1:
        return "none yet: half of these offsets is retried alone within a minute; other partitions continue"
    return (
        "find the cause of the kill in the supervisor's log (a memory limit, a crash in a library) and "
        f"fix it; the partition is retried automatically within the hour. {_skip(p, start)}"
    )


def too_large(offset: int, detail: str) -> str:
    """Return the reason for a record that is too large for one of Onramp's own topics."""
    return f"the event at offset {offset} is too large: {detail}"


def make_room(p: Partition, offset: int) -> str:
    """Return the fix: the topic must accept larger records."""
    return (
        "raise max.message.bytes of that topic with kafka-configs; the partition continues automatically "
        "within a minute, also when the database that the event waits for is reachable again. "
        f"{_skip(p, offset)}"
    )


def _skip(p: Partition, offset: int) -> str:
    return (
        f"To skip the record, save a copy, delete the records below {offset + 1} with "
        f"kafka-delete-records, then run: onramp partitions resolve {p} accept"
    )


def no_leader(of: Iterable[Partition]) -> str:
    """Return the reason for one of Onramp's own topics that cannot be read completely."""
    names = ", ".join(sorted(f"{p.topic}/{p.number}" for p in of))
    return (
        f"{names} has no leader that answers, and its records must be read before events are settled: "
        "start the broker that holds the partition, or move the partition to another broker"
    )
