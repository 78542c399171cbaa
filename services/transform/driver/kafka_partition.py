"""Follows one partition of a compacted topic: all records at the start, then the new ones."""

from collections.abc import AsyncIterator
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from shared.kafka_security import Brokers
from shared.polling import poll

_START_MS: Final = 200


class FollowedPartition:
    """A consumer of one partition; `options` are aiokafka's."""

    def __init__(self, brokers: Brokers, partition: TopicPartition, **options: Any) -> None:
        self._consumer = AIOKafkaConsumer(**brokers.aiokafka(), enable_auto_commit=False, **options)
        self._partition = partition

    async def start(self) -> AsyncIterator[Any]:
        """Connect, and yield all records.  Raise aiokafka's errors."""
        await self._consumer.start()
        self._consumer.assign([self._partition])
        await self._consumer.seek_to_beginning(self._partition)
        end = (await self._consumer.end_offsets([self._partition]))[self._partition]
        while await self._consumer.position(self._partition) < end:
            async for record in self.new_records(_START_MS):
                yield record

    async def stop(self) -> None:
        """Disconnect."""
        await self._consumer.stop()

    async def new_records(self, timeout_ms: int = 0) -> AsyncIterator[Any]:
        """Yield the records since the last call."""
        for records in (await poll(self._consumer, _skip, timeout_ms=timeout_ms)).values():
            for record in records:
                yield record


def _skip(*_: object) -> None:
    """Skip a record that no client can parse."""
