"""Sends records to Kafka from synchronous code: Spark's workers and the driver's threads.

This module owns aiokafka for them.  Each call creates a producer: parking and diverting are rare, and an
idle producer in every worker process would cost more.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeGuard

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, MessageSizeTooLargeError, RecordListTooLargeError

from shared.errors import KAFKA_UNAVAILABLE, RECORD_TOO_LARGE, InfrastructureError, OnrampError
from shared.kafka_security import Brokers
from shared.partitioner import partition_of

#: Well above the limits of Onramp's own topics, so that these limits apply.  A broker closes the connection
#: on requests of 100 MiB (`socket.request.max.bytes`), which would look like an outage.
MAX_REQUEST_BYTES: Final = 96 << 20

_DEADLINE_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 2.0
#: Larger records are sent alone, because a request carries the records of all partitions.
ALONE_BYTES: Final = 1 << 20
_TOO_LARGE: Final = (MessageSizeTooLargeError, RecordListTooLargeError)
_EXPECTED: Final = (OnrampError, KafkaError, TimeoutError, MemoryError)


class TooLargeError(InfrastructureError):
    """A topic rejects a record of this `size` (bytes); Kafka is up, and other records are not affected."""

    size = 0


def is_expected(error: BaseException) -> bool:
    """Return whether the writer waits after such an error, which is neither a bug nor one record's fault."""
    return isinstance(error, _EXPECTED) and not is_too_large(error)


def is_too_large(error: BaseException) -> TypeGuard[OnrampError]:
    """Return whether a record is too large for its topic, also for an error pickled from a worker."""
    return isinstance(error, OnrampError) and error.fault is RECORD_TOO_LARGE


@dataclass(frozen=True, slots=True)
class Record:
    """A record to send to a topic.  Records with the same key remain in order."""

    topic: str
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()

    @property
    def size(self) -> int:
        """Bytes of key, value and headers, without Kafka's framing."""
        headers = sum(len(name) + len(value) for name, value in self.headers)
        return len(self.key) + len(self.value or b"") + headers


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """The partition and offset of an acknowledged record."""

    partition: int
    offset: int


def publish(brokers: Brokers, records: Sequence[Record]) -> list[RecordMetadata]:
    """Send `records` to their topics; return the metadata in order when all are acknowledged, within 60 s.

    Raise `InfrastructureError`, including `TooLargeError`; some of the records may be on Kafka then.
    """
    return asyncio.run(_publish(brokers, records)) if records else []


async def _publish(brokers: Brokers, records: Sequence[Record]) -> list[RecordMetadata]:
    producer = AIOKafkaProducer(
        **brokers.aiokafka(),
        acks="all",
        enable_idempotence=True,
        max_request_size=MAX_REQUEST_BYTES,
    )
    try:
        async with asyncio.timeout(_DEADLINE_SECONDS):
            await producer.start()
            return await send_all(producer, records)
    except (KafkaError, TimeoutError) as e:
        topics = ", ".join(sorted({r.topic for r in records}))
        raise InfrastructureError(
            KAFKA_UNAVAILABLE, f"cannot send {len(records)} records to {topics}: {type(e).__name__}"
        ) from None
    finally:
        await _stop(producer)


async def send_all(producer: AIOKafkaProducer, records: Sequence[Record]) -> list[RecordMetadata]:
    """Send `records` with `producer`; return the metadata in order when all are acknowledged.

    Raise `TooLargeError` and aiokafka's own errors; after a `TooLargeError` `producer` cannot be used.
    """
    sent: list[asyncio.Future[RecordMetadata]] = []
    try:
        for record in records:
            sent.append(await _send(producer, record))
            if record.size > ALONE_BYTES:
                await sent[-1]
        return [RecordMetadata(a.partition, a.offset) for a in await asyncio.gather(*sent)]
    except _TOO_LARGE:
        raise _too_large(records, sent) from None


def _too_large(records: Sequence[Record], sent: Sequence["asyncio.Future[RecordMetadata]"]) -> TooLargeError:
    """Build the error of the smallest rejected record; all larger records would be rejected too."""
    rejected = [r for r, a in zip(records, sent, strict=False) if _is_rejected(a)]
    smallest = min(rejected or [records[len(sent)]], key=lambda r: r.size)  # or aiokafka rejected it
    error = TooLargeError(
        RECORD_TOO_LARGE,
        f"with what Onramp says of it it has {smallest.size:,} bytes, more than {smallest.topic} takes "
        "(its max.message.bytes)",
    )
    error.size = smallest.size
    return error


def _is_rejected(answer: "asyncio.Future[RecordMetadata]") -> bool:
    return answer.done() and not answer.cancelled() and isinstance(answer.exception(), _TOO_LARGE)


async def _send(producer: AIOKafkaProducer, record: Record) -> "asyncio.Future[RecordMetadata]":
    partitions = await producer.partitions_for(record.topic)
    future: asyncio.Future[RecordMetadata] = await producer.send(
        record.topic,
        key=record.key,
        value=record.value,
        headers=list(record.headers),
        partition=partition_of(record.key, len(partitions)),
    )
    return future


async def _stop(producer: AIOKafkaProducer) -> None:
    """Stop within `_STOP_SECONDS`: aiokafka's stop() flushes, and hangs while Kafka is down."""
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            await producer.stop()
    except (KafkaError, TimeoutError):
        return
