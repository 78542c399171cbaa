"""Follows `onramp.transformed`: the newest totals, for status, metrics and the rule that pauses."""

from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from services.transform.lane.totals import Position, TotalsRecord
from shared import wire
from shared.kafka_read.offsets import Partition
from shared.kafka_security import Brokers
from shared.polling import poll

_PARTITION: Final = TopicPartition(wire.TRANSFORMED, 0)
#: The broker answers once a second, not for each transaction.
_WAIT_MS: Final = 1_000
_MIN_BYTES: Final = 1 << 20


class TotalsFollower:
    """The newest totals by transform and partition."""

    def __init__(self, brokers: Brokers) -> None:
        self._consumer = AIOKafkaConsumer(
            **brokers.aiokafka(),
            enable_auto_commit=False,
            isolation_level="read_committed",
            fetch_max_wait_ms=_WAIT_MS,
            fetch_min_bytes=_MIN_BYTES,
        )
        self.positions: dict[str, dict[Partition, Position]] = {}

    async def start(self) -> None:
        """Connect, and read all totals.  Raise aiokafka's errors."""
        await self._consumer.start()
        self._consumer.assign([_PARTITION])
        await self._consumer.seek_to_beginning(_PARTITION)
        end = (await self._consumer.end_offsets([_PARTITION]))[_PARTITION]
        while await self._consumer.position(_PARTITION) < end:
            await self.refresh(timeout_ms=200)

    async def stop(self) -> None:
        """Disconnect."""
        await self._consumer.stop()

    async def refresh(self, timeout_ms: int = 0) -> None:
        """Read new totals."""
        for records in (await poll(self._consumer, _ignore, timeout_ms=timeout_ms)).values():
            for record in records:
                if parsed := TotalsRecord.parse(record.value):
                    self.positions.setdefault(parsed.transform, {})[parsed.partition] = parsed.position


def _ignore(*_: object) -> None:
    """Skip a record that no client can parse."""
