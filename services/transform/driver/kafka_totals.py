"""Follows `onramp.transformed`: the newest totals, for status, metrics and the rule that pauses."""

from typing import Any, Final

from aiokafka import TopicPartition

from services.transform.driver.kafka_partition import FollowedPartition
from shared import wire
from shared.kafka_read.offsets import Partition
from shared.kafka_security import Brokers
from shared.transform_totals import Position, TotalsRecord

_PARTITION: Final = TopicPartition(wire.TRANSFORMED, 0)
#: The broker answers once a second, not for each transaction.
_WAIT_MS: Final = 1_000
_MIN_BYTES: Final = 1 << 20


class TotalsFollower:
    """The newest totals by transform and partition."""

    def __init__(self, brokers: Brokers) -> None:
        self._followed = FollowedPartition(
            brokers,
            _PARTITION,
            isolation_level="read_committed",
            fetch_max_wait_ms=_WAIT_MS,
            fetch_min_bytes=_MIN_BYTES,
        )
        self.positions: dict[str, dict[Partition, Position]] = {}

    async def start(self) -> None:
        """Connect, and read all totals.  Raise aiokafka's errors."""
        async for record in self._followed.start():
            self._add(record)

    async def stop(self) -> None:
        """Disconnect."""
        await self._followed.stop()

    async def refresh(self) -> None:
        """Read new totals."""
        async for record in self._followed.new_records():
            self._add(record)

    def _add(self, record: Any) -> None:
        if parsed := TotalsRecord.parse(record.value):
            self.positions.setdefault(parsed.transform, {})[parsed.partition] = parsed.position
