"""The lane's transactional producer: one transaction has the records and the offsets of a batch.

aiokafka's `send` costs three times as much as its batches, which are built here, one for each partition.
It retries without end, so each step has a timeout.  Any error ends the run: the next run's InitProducerId
settles a commit with an unknown result.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Self

import msgspec
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError, MessageSizeTooLargeError, RecordListTooLargeError
from aiokafka.structs import OffsetAndMetadata

from services.transform.lane.order import LaneOrder
from shared import failpoints
from shared.errors import RECORD_TOO_LARGE, InfrastructureError
from shared.kafka_read.offsets import Partition
from shared.kafka_security import Brokers
from shared.kafka_transaction_errors import transaction_failure
from shared.partitioner import partition_of
from shared.transform_totals import Position

log = logging.getLogger(__name__)

#: Milliseconds after which the coordinator aborts the transaction of a run that is frozen.
TRANSACTION_TIMEOUT_MS: Final = 15_000
#: Maximum seconds of a step; below the transaction's timeout, so that the run knows why it ends.
STEP_SECONDS: Final = 12.0
_ABORT_SECONDS: Final = 3.0
#: InitProducerId waits until the coordinator has ended the transaction of an earlier run.
_FENCE_SECONDS: Final = 30.0
_REQUEST_MS: Final = 8_000
_STOP_SECONDS: Final = 2.0
#: Bytes of a record batch; Kafka's default limit of a topic is above it, and that of one event is the same.
_BATCH_BYTES: Final = 900_000
_TOO_LARGE: Final = (MessageSizeTooLargeError, RecordListTooLargeError)

#: A list, as aiokafka's builder requires.
Headers = list[tuple[str, bytes]]


class OutgoingRecord(msgspec.Struct, gc=False):
    """A record of the transaction; its key decides the partition."""

    topic: str
    key: bytes
    value: bytes | None
    headers: Headers
    #: Milliseconds since 1970; by default the time of sending.
    timestamp: int | None = None


class LaneProducer:
    """A producer with the transactional id of one lane."""

    def __init__(self, brokers: Brokers, transactional_id: str) -> None:
        self._id = transactional_id
        self._producer = AIOKafkaProducer(
            **brokers.aiokafka(),
            acks="all",
            transactional_id=transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            max_batch_size=_BATCH_BYTES,
            request_timeout_ms=_REQUEST_MS,
        )
        self._is_committing = False

    @classmethod
    def of(cls, order: LaneOrder) -> Self:
        """Return the producer of an order's lane."""
        return cls(order.brokers, order.transactional_id)

    @property
    def client(self) -> AIOKafkaClient:
        """Return the client, for other requests between two transactions."""
        return self._producer.client

    async def fence(self) -> None:
        """Connect; end the transaction of each other holder of the id, which cannot commit any more.

        Raise `InfrastructureError`.
        """
        try:
            async with asyncio.timeout(_FENCE_SECONDS):
                await self._producer.start()
        except (KafkaError, TimeoutError, OSError) as e:
            raise transaction_failure(e, f"cannot fence {self._id}") from e

    async def commit(
        self, records: Iterable[OutgoingRecord], group: str, positions: Mapping[Partition, Position]
    ) -> None:
        """Commit `records` and the offsets of `group` in one transaction, or none of them.

        Raise `InfrastructureError`: FENCED, RECORD_TOO_LARGE (the topic refuses a record), or
        KAFKA_UNAVAILABLE, also if it is unknown whether Kafka has committed.
        """
        offsets = {
            TopicPartition(*p): OffsetAndMetadata(each.next, each.totals.metadata())
            for p, each in positions.items()
        }
        self._is_committing = False
        try:
            async with asyncio.timeout(STEP_SECONDS):
                batches = await self._by_partition(records)
                await self._producer.begin_transaction()
            failpoints.reach("transform.begun")
            async with asyncio.timeout(STEP_SECONDS):
                await asyncio.gather(*(self._send(p, each) for p, each in batches.items()))
            failpoints.reach("transform.sent")
            async with asyncio.timeout(STEP_SECONDS):
                await self._producer.send_offsets_to_transaction(offsets, group)
            failpoints.reach("transform.before_commit")
            self._is_committing = True
            async with asyncio.timeout(STEP_SECONDS):
                await self._producer.commit_transaction()
            failpoints.reach("transform.committed")
        except InfrastructureError:
            await self._abort()
            raise
        except (KafkaError, TimeoutError, OSError) as e:
            await self._abort()
            raise transaction_failure(e, f"cannot commit the transaction of {self._id}") from e

    async def _by_partition(
        self, records: Iterable[OutgoingRecord]
    ) -> dict[TopicPartition, list[OutgoingRecord]]:
        by_topic: dict[str, list[list[OutgoingRecord]]] = {}
        for record in records:
            partitions = by_topic.get(record.topic)
            if partitions is None:
                count = len(await self._producer.partitions_for(record.topic))
                partitions = by_topic[record.topic] = [[] for _ in range(count)]
            partitions[partition_of(record.key, len(partitions))].append(record)
        return {
            TopicPartition(topic, number): each
            for topic, partitions in by_topic.items()
            for number, each in enumerate(partitions)
            if each
        }

    async def _send(self, partition: TopicPartition, records: Sequence[OutgoingRecord]) -> None:
        """Send the records of one partition in order; return when Kafka has acknowledged them."""
        acknowledged = []
        batch = self._producer.create_batch()
        for each in records:
            fields = {"key": each.key, "value": each.value, "headers": each.headers}
            if batch.append(timestamp=each.timestamp, **fields) is None:
                acknowledged.append(await self._submit(batch, partition))
                batch = self._producer.create_batch()
                batch.append(timestamp=each.timestamp, **fields)
        acknowledged.append(await self._submit(batch, partition))
        try:
            await asyncio.gather(*acknowledged)
        except _TOO_LARGE as e:
            raise InfrastructureError(
                RECORD_TOO_LARGE, f"topic {partition.topic} refuses a record batch: max.message.bytes"
            ) from e

    async def _submit(self, batch: object, partition: TopicPartition) -> "asyncio.Future[object]":
        future: asyncio.Future[object] = await self._producer.send_batch(
            batch, partition.topic, partition=partition.partition
        )
        return future

    async def _abort(self) -> None:
        """Abort the open transaction, unless its commit was sent; the next run's fence ends it otherwise."""
        if self._is_committing:
            return
        try:
            async with asyncio.timeout(_ABORT_SECONDS):
                await self._producer.abort_transaction()
        except (KafkaError, TimeoutError, AssertionError) as e:
            reason = type(e).__name__
            log.info("could not abort; the next run ends the transaction", extra={"reason": reason})

    async def stop(self) -> None:
        """Disconnect within two seconds: aiokafka waits for records while Kafka is down."""
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await self._producer.stop()
        except (KafkaError, TimeoutError) as e:
            log.info("the producer did not stop in time", extra={"reason": type(e).__name__})
            await self._producer.client.close()
