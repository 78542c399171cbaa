"""The producer of the driver: each step is a Kafka transaction under one transactional id.

A driver that starts fences the one before, whose next plan fails.  A batch that was already planned may still
commit to tables: its ranges and routes are on `onramp.lake`, and the tables compare positions.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndMetadata

from services.lake.driver.lake_log import Entry
from shared import wire
from shared.kafka_read.offsets import Partition
from shared.kafka_security import Brokers
from shared.kafka_transaction_errors import transaction_failure

TRANSACTIONAL_ID: Final = "onramp-lake"
_TIMEOUT_MS: Final = 15_000
#: Below the transaction's timeout.
_STEP_SECONDS: Final = 12.0
#: InitProducerId waits until the coordinator has ended the transaction of an earlier driver.
_FENCE_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 2.0
_REQUEST_MS: Final = 8_000
_MAX_REQUEST_BYTES: Final = 16 << 20


class LakeProducer:
    """Appends to `onramp.lake` and commits offsets of the group, both or neither."""

    def __init__(self, brokers: Brokers) -> None:
        self._producer = AIOKafkaProducer(
            **brokers.aiokafka(),
            acks="all",
            transactional_id=TRANSACTIONAL_ID,
            transaction_timeout_ms=_TIMEOUT_MS,
            request_timeout_ms=_REQUEST_MS,
            max_request_size=_MAX_REQUEST_BYTES,
        )

    async def start(self) -> None:
        """Connect and fence each earlier driver.  Raise `InfrastructureError`."""
        try:
            async with asyncio.timeout(_FENCE_SECONDS):
                await self._producer.start()
        except (KafkaError, TimeoutError, OSError) as e:
            raise transaction_failure(e, "cannot fence earlier drivers of the lake") from e

    async def stop(self) -> None:
        """Disconnect within two seconds."""
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await self._producer.stop()
        except (KafkaError, TimeoutError):
            await self._producer.client.close()

    async def commit(
        self, entries: Sequence[Entry], offsets: Mapping[Partition, tuple[int, str]] | None = None
    ) -> None:
        """Append `entries`, and commit the group's `offsets` with their topic ids, in one transaction.

        Raise `InfrastructureError`: FENCED, or KAFKA_UNAVAILABLE, also if the result is unknown; then the
        session ends and the next one reads what Kafka has.
        """
        try:
            async with asyncio.timeout(_STEP_SECONDS):
                await self._producer.begin_transaction()
                sent = [
                    await self._producer.send(wire.LAKE, key=key, value=value, partition=0)
                    for key, value in entries
                ]
                await asyncio.gather(*sent)
                if offsets:
                    by_partition = {
                        TopicPartition(*p): OffsetAndMetadata(offset, topic_id)
                        for p, (offset, topic_id) in offsets.items()
                    }
                    await self._producer.send_offsets_to_transaction(by_partition, wire.LAKE_GROUP)
                await self._producer.commit_transaction()
        except (KafkaError, TimeoutError, OSError) as e:
            raise transaction_failure(e, "cannot record a step of the lake") from e
