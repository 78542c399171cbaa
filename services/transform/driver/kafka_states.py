"""Follows the states of transforms, and writes those of the driver."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from aiokafka import AIOKafkaProducer, TopicPartition

from services.transform.driver.kafka_partition import FollowedPartition
from shared import transform_state, wire
from shared.kafka_security import Brokers
from shared.transform_state import INITIAL, PAUSED, StateRecord, TransformState

_PARTITION: Final = TopicPartition(wire.TRANSFORMERS, transform_state.PARTITION)


class States:
    """The states by transform."""

    def __init__(self, brokers: Brokers) -> None:
        self._followed = FollowedPartition(brokers, _PARTITION)
        self._producer = AIOKafkaProducer(**brokers.aiokafka(), acks="all", enable_idempotence=True)
        self._states: dict[str, TransformState] = {}

    async def start(self) -> None:
        """Connect, and read all states.  Raise aiokafka's errors."""
        await self._producer.start()
        async for record in self._followed.start():
            self._add(record)

    async def stop(self) -> None:
        """Disconnect."""
        await self._followed.stop()
        await self._producer.stop()

    async def refresh(self) -> None:
        """Read new states."""
        async for record in self._followed.new_records():
            self._add(record)

    def _add(self, record: Any) -> None:
        if parsed := StateRecord.parse(record.key, record.value):
            self._states[parsed.transform] = parsed.state

    def of(self, name: str) -> TransformState:
        """Return the state of a transform."""
        return self._states.get(name, INITIAL)

    async def write(self, name: str, state: TransformState) -> None:
        """Write a state of the driver.  Raise aiokafka's errors."""
        await self._producer.send_and_wait(
            wire.TRANSFORMERS,
            key=transform_state.key_of(name),
            value=state.value(),
            partition=transform_state.PARTITION,
        )
        self._states[name] = state

    async def pause(self, name: str, reason: str) -> None:
        """Pause a transform, by the driver."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        await self.write(name, TransformState(state=PAUSED, reason=reason, at=at, by="onramp"))

    async def accepted(self, name: str) -> None:
        """Record that positions outside of the log have moved, so that later losses pause again."""
        state = self.of(name)
        if state.accept:
            await self.write(name, replace(state, accept=False))
