"""The newest events of a name in its topic."""

import asyncio

from services.ops.kafka_logs import LogRecord
from services.ops.operate.newest_records import newest
from services.ops.registry.registry_reader import RegistryReader


def newest_records(desk: RegistryReader, topic: str, last: int) -> list[LogRecord]:
    """Return at most `last` newest records of a topic, the newest first; none without the topic.

    They are fewer above the limits of `newest`.

    Raises `InfrastructureError`.
    """
    found = asyncio.run(newest(desk.kafka.brokers, topic, last))
    return list(reversed(found.records)) if found else []
