"""Puts records on Kafka from synchronous code: Spark's workers and the driver's threads.

Owns aiokafka for them.  Each call has a producer of its own: parking and diverting are
rare, and an idle producer in every worker process is not.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from shared.errors import KAFKA_UNAVAILABLE, InfrastructureError, OnrampError
from shared.kafka_security import Brokers
from shared.wire import partition_of

#: What is known to come, and is no one record's fault.
FORESEEN: Final = (OnrampError, KafkaError, TimeoutError, MemoryError)

_DEADLINE_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 2.0
#: Larger than any event that a topic takes, so that an event's error record fits as well.
_MAX_REQUEST_BYTES: Final = 10 << 20


@dataclass(frozen=True, slots=True)
class Record:
    """What to put on a topic.  Records of one key stay in order."""

    topic: str
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """Where Kafka holds a record."""

    partition: int
    offset: int


def publish(brokers: Brokers, records: Sequence[Record]) -> list[Place]:
    """Put `records` on their topics and return, in their order, where Kafka holds them all.

    Raises `InfrastructureError`; some of the records may have got there then.
    """
    return asyncio.run(_publish(brokers, records)) if records else []


async def _publish(brokers: Brokers, records: Sequence[Record]) -> list[Place]:
    producer = AIOKafkaProducer(
        **brokers.aiokafka(),
        acks="all",
        enable_idempotence=True,
        max_request_size=_MAX_REQUEST_BYTES,
    )
    try:
        async with asyncio.timeout(_DEADLINE_SECONDS):
            await producer.start()
            return await send_all(producer, records)
    except (KafkaError, TimeoutError) as e:
        topics = ", ".join(sorted({r.topic for r in records}))
        raise InfrastructureError(
            KAFKA_UNAVAILABLE, f"{len(records)} records could not be put on {topics}: {type(e).__name__}"
        ) from None
    finally:
        await _stop(producer)


async def send_all(producer: AIOKafkaProducer, records: Sequence[Record]) -> list[Place]:
    """Send `records` with `producer` and return, in their order, where Kafka holds them."""
    acknowledgements = [await _send(producer, r) for r in records]
    return [Place(a.partition, a.offset) for a in await asyncio.gather(*acknowledgements)]


async def _send(producer: AIOKafkaProducer, record: Record) -> "asyncio.Future[Place]":
    partitions = await producer.partitions_for(record.topic)
    future: asyncio.Future[Place] = await producer.send(
        record.topic,
        key=record.key,
        value=record.value,
        headers=list(record.headers),
        partition=partition_of(record.key, len(partitions)),
    )
    return future


async def _stop(producer: AIOKafkaProducer) -> None:
    """Stop without waiting for ever: aiokafka's stop() flushes, and hangs while Kafka is away."""
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            await producer.stop()
    except (KafkaError, TimeoutError):
        return
