"""A driver's epoch: a record on partition 0 of `onramp.transformers`, whose offset is the epoch.

A run refuses to start if a newer epoch exists.  A run of an older driver that has already started is fenced:
after its record, the driver calls InitProducerId for the lanes of the last epoch and for its own.
"""

import asyncio
import os
import socket
from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack
from typing import Final

import msgspec
import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from services.transform.lane.kafka_transaction import LaneProducer
from services.transform.lane.order import transactional_id
from shared import failpoints, wire
from shared.errors import KAFKA_UNAVAILABLE, InfrastructureError
from shared.kafka_security import Brokers
from shared.parse_errors import UNREADABLE
from shared.polling import read_to
from shared.registry.transforms import MAX_LANES

_PARTITION: Final = TopicPartition(wire.TRANSFORMERS, 0)
_KEY: Final = b"epoch"
_SECONDS: Final = 10.0
#: Lanes that are fenced at a time.
_AT_A_TIME: Final = 8

#: The number of lanes of each transform.
Lanes = Mapping[str, int]


async def take_epoch(brokers: Brokers, lanes: Lanes, changed: Collection[str] | None = None) -> int:
    """Append an epoch with `lanes` and fence all runs of older ones; return the epoch.

    `changed`: the same driver changes the lanes of these transforms, and fences only theirs.  The record also
    has the lanes of the last one, because that driver may have ended before it fenced them.
    Raise `InfrastructureError`.
    """
    try:
        async with asyncio.timeout(_SECONDS):
            last = await _last_lanes(brokers)
            united = {name: max(last.get(name, 0), lanes.get(name, 0)) for name in {*last, *lanes}}
            epoch = await _append(brokers, united)
    except (KafkaError, TimeoutError, OSError) as e:
        raise InfrastructureError(KAFKA_UNAVAILABLE, f"cannot take an epoch: {type(e).__name__}") from e
    failpoints.reach("transform.epoch_taken")
    fenced = united if changed is None else {name: united[name] for name in changed}
    await _fence(brokers, [transactional_id(name, n) for name, count in fenced.items() for n in range(count)])
    return epoch


async def _last_lanes(brokers: Brokers) -> dict[str, int]:
    """Return the lanes of the newest epoch; none if no driver has started before."""
    lanes: dict[str, int] = {}
    async with AsyncExitStack() as stack:
        consumer = AIOKafkaConsumer(**brokers.aiokafka(), enable_auto_commit=False)
        stack.push_async_callback(consumer.stop)
        await consumer.start()
        consumer.assign([_PARTITION])
        await consumer.seek_to_beginning(_PARTITION)
        ends = await consumer.end_offsets([_PARTITION])
        async for record in read_to(consumer, _ignore, ends, _SECONDS):
            lanes = _lanes_in(record.value) or lanes
    return lanes


def _lanes_in(value: bytes | None) -> dict[str, int] | None:
    try:
        lanes = msgspec.convert(orjson.loads(value or b"")["lanes"], dict[str, int])
        return {name: min(count, MAX_LANES) for name, count in lanes.items()}
    except UNREADABLE:
        return None  # a record of another client


async def _append(brokers: Brokers, lanes: Lanes) -> int:
    entry = {"host": socket.gethostname(), "pid": os.getpid(), "lanes": lanes}
    async with AIOKafkaProducer(**brokers.aiokafka(), acks="all", enable_idempotence=True) as producer:
        record = await producer.send_and_wait(
            wire.TRANSFORMERS, key=_KEY, value=orjson.dumps(entry), partition=_PARTITION.partition
        )
    return int(record.offset)


async def _fence(brokers: Brokers, ids: Collection[str]) -> None:
    """Call InitProducerId for each id: a transaction of an older run is aborted, and the run is fenced."""
    slots = asyncio.Semaphore(_AT_A_TIME)

    async def fence(lane_id: str) -> None:
        async with slots:
            producer = LaneProducer(brokers, lane_id)
            try:
                await producer.fence()
            finally:
                await producer.stop()

    await asyncio.gather(*(fence(each) for each in ids))


def _ignore(*_: object) -> None:
    """Skip a record that no client can parse."""
