"""The newest events of a name in its topic."""

import asyncio

from services.ops.kafka_logs import LogRecord
from services.ops.operate.newest_records import newest
from services.ops.registry.registry_reader import RegistryReader
from shared import wire
from shared.registry import Snapshot


def topic_of_type(snapshot: Snapshot, name: str) -> str:
    """Return the topic of an event name."""
    event_type = snapshot.event_types.get(name)
    return (event_type.topic if event_type else None) or wire.topic_of(name)


def newest_records(desk: RegistryReader, topic: str, last: int) -> list[LogRecord]:
    """Return at most `last` newest records of a topic, the newest first; none without the topic.

    They are fewer above the limits of `newest`.

    Raises `InfrastructureError`.
    """
    found = asyncio.run(newest(desk.kafka.brokers, topic, last))
    return list(reversed(found.records)) if found else []
