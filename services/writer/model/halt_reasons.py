"""The messages of halted partitions: the reason, and the operator's fix."""

from collections.abc import Iterable
from typing import Final

from services.writer.model.next_offsets import Position
from services.writer.model.offsets import Partition
from shared import wire

RECREATED: Final = "the topic was deleted and recreated: its offsets start again"
FROM_ITS_START: Final = "to read it from its start, delete the group's offset of it and restart"
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
        f"the leader knows no leader epoch as late as {epoch}, which {wire.SETTLED} names: what Kafka's log "
        f"lost cannot be told, or somebody else wrote that epoch; what is kept goes on at {next_offset}"
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
    return f"to go on with what Kafka has: onramp partitions resolve {p} accept"


def try_again(p: Partition, offset: int) -> str:
    """Return the fix: another release of the writer, or skipping the record."""
    return (
        "report the exception; the partition is tried again by itself, also after a restart with a release "
        f"that fixes it. {_do_without(p, offset)}"
    )


def lethal(start: int, end: int, crashes: int) -> str:
    """Return the reason for a record that probably crashes writers; the last one read only these offsets."""
    if end - start == 1:
        return f"{crashes} writers were killed at offset {start}, the last one while it read nothing else"
    return f"{crashes} writers were killed at one of the offsets {start} to {end - 1}: it is looked for"


def lethal_fix(p: Partition, start: int, end: int) -> str:
    """Return the fix: a fixed writer, more memory, or skipping the record."""
    if end - start > 1:
        return "none yet: half of them is tried alone within a minute, and the others go on until then"
    return (
        "look in the supervisor's log for what kills the writer (its memory limit, a crash in a library) and "
        f"mend that; the partition is tried again by itself within the hour. {_do_without(p, start)}"
    )


def too_large(offset: int, detail: str) -> str:
    """Return the reason for a record that is too large for one of Onramp's own topics."""
    return f"the event at offset {offset} is too large: {detail}"


def make_room(p: Partition, offset: int) -> str:
    """Return the fix: the topic must accept larger records."""
    return (
        "raise max.message.bytes of that topic with kafka-configs; the partition goes on by itself within a "
        f"minute, also when the database is back that the event waits for. {_do_without(p, offset)}"
    )


def _do_without(p: Partition, offset: int) -> str:
    return (
        f"To do without the record, keep a copy, delete what is below {offset + 1} with "
        f"kafka-delete-records, then: onramp partitions resolve {p} accept"
    )


def no_leader(of: Iterable[Partition]) -> str:
    """Return the reason for one of Onramp's own topics that cannot be read completely."""
    names = ", ".join(sorted(f"{p.topic}/{p.number}" for p in of))
    return (
        f"{names} has no leader that answers, and what is there must be known before anything is settled: "
        "start the broker that holds it, or move it to another"
    )
