"""Polls a Kafka consumer past a record that its client cannot read.

A header whose key is no UTF-8 raises out of the client's poll, and again at each poll after
it: on a topic that Onramp must read to its end one such record, which any client may write,
would be the last that anybody reads.
"""

from collections.abc import Callable
from typing import Any

#: Called with the place of a record that is passed over: topic, partition, offset.
PassedOver = Callable[[str, int, int], None]


async def poll(consumer: Any, passed_over: PassedOver, *partitions: Any, timeout_ms: int) -> dict[Any, Any]:
    """What `consumer` has of `partitions` (none: of all), by partition, as its `getmany` gives it.

    Where that fails, what comes before the record at fault, which is passed over.
    """
    stood = {p: await consumer.position(p) for p in partitions or consumer.assignment()}
    try:
        found: dict[Any, Any] = await consumer.getmany(*partitions, timeout_ms=timeout_ms)
    except UnicodeDecodeError:
        for partition, at in stood.items():  # what it had taken of the others went with the exception
            consumer.seek(partition, at)
        found = {p: await _poll_one(consumer, passed_over, p, timeout_ms) for p in stood}
    return found


async def _poll_one(consumer: Any, passed_over: PassedOver, partition: Any, timeout_ms: int) -> list[Any]:
    try:
        found = await consumer.getmany(partition, timeout_ms=timeout_ms)
        return list(found.get(partition, ()))
    except UnicodeDecodeError:
        pass
    records: list[Any] = []
    while True:  # the client gives what it has read before the fault only when asked for one at a time
        try:
            found = await consumer.getmany(partition, timeout_ms=timeout_ms, max_records=1)
        except UnicodeDecodeError:
            at = await consumer.position(partition)
            passed_over(partition.topic, partition.partition, at)
            consumer.seek(partition, at + 1)
            return records
        records += found.get(partition, ())
