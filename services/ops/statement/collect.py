"""Takes a reading of all databases at once, and of Kafka what no database counts, within a deadline.

A part that does not answer in time is named; the others are read.
"""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from services.ops.findings import Source
from services.ops.kafka_logs import KafkaLogs
from services.ops.settled.reader import SettledReader
from services.ops.statement import reading_sql
from services.ops.statement.reading import DatabaseReading, TopicReading, Uncounted
from shared.errors import InfrastructureError
from shared.kafka_security import Brokers

_PAUSE_SECONDS: Final = 0.05
#: The part of the deadline that a database has: the rest is for Kafka at the databases' offsets.
_SHARE_OF_DATABASES: Final = 0.75


@dataclass(slots=True)
class Collected:
    """The databases that answered, and by part why another did not."""

    databases: dict[str, DatabaseReading] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    #: Offsets on Kafka that the writer has not settled, by topic; empty if Kafka did not answer.
    in_flight: dict[str, int] = field(default_factory=dict)
    retired: frozenset[str] = frozenset()


async def collect(
    brokers: Brokers, databases: Mapping[str, str], seconds: float, settled: SettledReader
) -> Collected:
    """Read `databases` (DSN by name) and Kafka; takes about `seconds` at most.

    `settled`: the writer's log, of which new entries are read.
    """
    collected = Collected()
    reading = asyncio.create_task(_read_databases(databases, seconds * _SHARE_OF_DATABASES, collected))
    try:
        async with asyncio.timeout(seconds):
            await _read_kafka(brokers, seconds, collected, reading, settled)
    except TimeoutError:
        collected.missing["Kafka"] = f"Kafka at {brokers} did not answer in {seconds:g} s"
    except InfrastructureError as e:
        collected.missing["Kafka"] = e.detail
    await reading
    return collected


async def _read_databases(databases: Mapping[str, str], seconds: float, collected: Collected) -> None:
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(max(len(databases), 1), "statement") as threads:
        readings = {
            name: loop.run_in_executor(threads, reading_sql.read, name, dsn, seconds)
            for name, dsn in databases.items()
        }
        await asyncio.gather(*readings.values(), return_exceptions=True)
    for name, future in readings.items():
        error = future.exception()
        if error is None:
            collected.databases[name] = future.result()
        elif isinstance(error, InfrastructureError):
            collected.missing[name] = error.detail
        else:
            raise error


async def _read_kafka(
    brokers: Brokers,
    seconds: float,
    collected: Collected,
    reading: "asyncio.Task[None]",
    settled: SettledReader,
) -> None:
    patience_ends = asyncio.get_running_loop().time() + seconds * _SHARE_OF_DATABASES
    async with KafkaLogs(brokers) as logs:
        await settled.refresh(logs)
        topic_ids = await logs.topic_ids()
        await asyncio.shield(reading)
        needed = _ledgers(collected, topic_ids)
        while True:
            group = await logs.group_offsets()
            await settled.refresh(logs)
            ahead = {source for source, ledger in needed.items() if group.get(source, 0) < ledger}
            if not ahead or asyncio.get_running_loop().time() > patience_ends:
                break
            await asyncio.sleep(_PAUSE_SECONDS)
        spans = await logs.spans({source.topic for source in needed})
    collected.retired = settled.retired()
    for source, (first, end) in spans.items():
        behind = max(end - max(group.get(source, first), first), 0)
        collected.in_flight[source.topic] = collected.in_flight.get(source.topic, 0) + behind
    for name, database in collected.databases.items():
        for topic_id, topic in database.topics.items():
            _complete(settled, name, topic_id, topic)
            if topic_ids.get(topic.topic) == topic_id:
                if any(Source(topic.topic, partition) in ahead for partition in topic.next_offsets):
                    topic.uncounted = None  # the writer is in the middle of a batch
                topic.diverted = sum(
                    max(group.get(Source(topic.topic, partition), 0) - next_offset, 0)
                    for partition, next_offset in topic.next_offsets.items()
                )


def _complete(settled: SettledReader, database: str, topic_id: str, reading: TopicReading) -> None:
    """Add the first offsets of `database` to a reading, and the uncounted offsets at its ledger."""
    total: Uncounted | None = Uncounted()
    for partition, next_offset in reading.next_offsets.items():
        first = settled.first_offsets(topic_id, partition).get(database)
        if first is not None:
            reading.first_offsets[partition] = first
        counts = settled.totals_at(topic_id, partition, next_offset)
        if total is None or counts is None:
            total = None
        else:
            total = total + Uncounted(counts.filtered, counts.unroutable, counts.holes)
    reading.uncounted = total


def _ledgers(collected: Collected, topic_ids: Mapping[str, str]) -> dict[Source, int]:
    """Return the furthest ledger of each partition of a topic that exists."""
    furthest: dict[Source, int] = {}
    for database in collected.databases.values():
        for topic_id, topic in database.topics.items():
            if topic_ids.get(topic.topic) == topic_id:
                for partition, next_offset in topic.next_offsets.items():
                    source = Source(topic.topic, partition)
                    furthest[source] = max(furthest.get(source, 0), next_offset)
    return furthest
