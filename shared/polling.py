"""Polls a Kafka consumer past records that its client cannot parse.

A header whose key is not UTF-8 makes this and every later poll of the client raise: on a topic
that Onramp must read to its end, one such record, which any client may write, would stop all reading.
"""

import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

from shared.errors import KAFKA_UNAVAILABLE, InfrastructureError

_POLL_MS: Final = 200
#: Called for a record that is skipped, with its topic, partition and offset.
Skipped = Callable[[str, int, int], None]


async def poll(consumer: Any, skipped: Skipped, *partitions: Any, timeout_ms: int) -> dict[Any, Any]:
    """Poll `partitions` (all assigned ones by default) like `getmany`; return the records by partition.

    If a record cannot be parsed, return those before it and move the position past it.
    """
    positions = {p: await consumer.position(p) for p in partitions or consumer.assignment()}
    try:
        records: dict[Any, Any] = await consumer.getmany(*partitions, timeout_ms=timeout_ms)
    except UnicodeDecodeError:
        for partition, position in positions.items():  # the exception lost others' records
            consumer.seek(partition, position)
        records = {p: await _poll_one(consumer, skipped, p, timeout_ms) for p in positions}
    return records


async def read_to(
    consumer: Any, skipped: Skipped, ends: Mapping[Any, int], seconds: float
) -> AsyncIterator[Any]:
    """Yield the records of the assigned partitions until each position reaches its end in `ends`.

    Raises `InfrastructureError` (KAFKA_UNAVAILABLE) if no position moves for `seconds`: the client
    itself waits forever for an unreachable broker.
    """
    before, moved = dict[Any, int](), time.monotonic()
    # Compaction leaves holes, so positions and not records show when the end is reached.
    while left := {p: at for p, end in ends.items() if (at := await consumer.position(p)) < end}:
        if left != before:
            before, moved = left, time.monotonic()
        elif time.monotonic() - moved >= seconds:
            names = ", ".join(f"{p.topic}/{p.partition}" for p in sorted(left))
            raise InfrastructureError(KAFKA_UNAVAILABLE, f"no record of {names} arrived in {seconds:g} s")
        for records in (await poll(consumer, skipped, timeout_ms=_POLL_MS)).values():
            for record in records:
                yield record


async def _poll_one(consumer: Any, skipped: Skipped, partition: Any, timeout_ms: int) -> list[Any]:
    try:
        polled = await consumer.getmany(partition, timeout_ms=timeout_ms)
        return list(polled.get(partition, ()))
    except UnicodeDecodeError:
        pass
    records: list[Any] = []
    while True:  # the client returns the records before the bad one only if polled for one at a time
        try:
            polled = await consumer.getmany(partition, timeout_ms=timeout_ms, max_records=1)
        except UnicodeDecodeError:
            bad = await consumer.position(partition)
            skipped(partition.topic, partition.partition, bad)
            consumer.seek(partition, bad + 1)
            return records
        records += polled.get(partition, ())
