"""Polls a Kafka consumer past records that its client cannot parse.

A header whose key is not UTF-8 makes the client's poll raise, and each poll after it: on a topic
that Onramp must read to its end one such record, which any client may write, would stop all reading.
"""

from collections.abc import Callable
from typing import Any

#: Called for a record that is skipped, with its topic, partition and offset.
Skipped = Callable[[str, int, int], None]


async def poll(consumer: Any, skipped: Skipped, *partitions: Any, timeout_ms: int) -> dict[Any, Any]:
    """Poll `partitions` (none given: all assigned) as `getmany` does; return the records by partition.

    Where a record cannot be parsed, returns those before it and moves the position behind it.
    """
    positions = {p: await consumer.position(p) for p in partitions or consumer.assignment()}
    try:
        records: dict[Any, Any] = await consumer.getmany(*partitions, timeout_ms=timeout_ms)
    except UnicodeDecodeError:
        for partition, position in positions.items():  # records of the others were lost with the exception
            consumer.seek(partition, position)
        records = {p: await _poll_one(consumer, skipped, p, timeout_ms) for p in positions}
    return records


async def _poll_one(consumer: Any, skipped: Skipped, partition: Any, timeout_ms: int) -> list[Any]:
    try:
        polled = await consumer.getmany(partition, timeout_ms=timeout_ms)
        return list(polled.get(partition, ()))
    except UnicodeDecodeError:
        pass
    records: list[Any] = []
    while True:  # the client returns records before the bad one only when polled for one at a time
        try:
            polled = await consumer.getmany(partition, timeout_ms=timeout_ms, max_records=1)
        except UnicodeDecodeError:
            bad = await consumer.position(partition)
            skipped(partition.topic, partition.partition, bad)
            consumer.seek(partition, bad + 1)
            return records
        records += polled.get(partition, ())
