"""The states of transforms: records by key `state:<name>` on partition 1 of `onramp.transformers`.

Operators pause and resume a transform through the admin service; the driver pauses one by itself.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Self

import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from shared import wire
from shared.kafka_security import Brokers
from shared.polling import poll

_PARTITION: Final = TopicPartition(wire.TRANSFORMERS, 1)
_PREFIX: Final = b"state:"
RUNNING: Final = "running"
PAUSED: Final = "paused"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformState:
    """The state that an operator or the driver has set."""

    state: str = RUNNING
    reason: str = ""
    at: str = ""
    by: str = ""
    #: Whether positions outside of the log may move to its nearest end.
    accept: bool = False

    @property
    def is_paused(self) -> bool:
        """Return whether no run may start."""
        return self.state == PAUSED

    @classmethod
    def parse(cls, value: bytes | None) -> Self:
        """Return the state in a record; running for one that is deleted or of another client."""
        try:
            document: dict[str, Any] = orjson.loads(value or b"{}")
            return cls(**{name: document[name] for name in cls.__dataclass_fields__ if name in document})
        except (orjson.JSONDecodeError, TypeError):
            return cls()


INITIAL: Final = TransformState()


class States:
    """Follows the states, and writes those of the driver."""

    def __init__(self, brokers: Brokers) -> None:
        self._consumer = AIOKafkaConsumer(**brokers.aiokafka(), enable_auto_commit=False)
        self._producer = AIOKafkaProducer(**brokers.aiokafka(), acks="all", enable_idempotence=True)
        self._states: dict[str, TransformState] = {}

    async def start(self) -> None:
        """Connect, and read all states.  Raise aiokafka's errors."""
        await self._producer.start()
        await self._consumer.start()
        self._consumer.assign([_PARTITION])
        await self._consumer.seek_to_beginning(_PARTITION)
        end = (await self._consumer.end_offsets([_PARTITION]))[_PARTITION]
        while await self._consumer.position(_PARTITION) < end:
            await self.refresh(timeout_ms=200)

    async def stop(self) -> None:
        """Disconnect."""
        await self._consumer.stop()
        await self._producer.stop()

    async def refresh(self, timeout_ms: int = 0) -> None:
        """Read new states."""
        for records in (await poll(self._consumer, _ignore, timeout_ms=timeout_ms)).values():
            for record in records:
                if record.key and record.key.startswith(_PREFIX):
                    name = record.key.removeprefix(_PREFIX).decode("utf-8", "replace")
                    self._states[name] = TransformState.parse(record.value)

    def of(self, name: str) -> TransformState:
        """Return the state of a transform."""
        return self._states.get(name, INITIAL)

    async def write(self, name: str, state: TransformState) -> None:
        """Write a state of the driver.  Raise aiokafka's errors."""
        document = {each: getattr(state, each) for each in TransformState.__dataclass_fields__}
        await self._producer.send_and_wait(
            wire.TRANSFORMERS, key=_PREFIX + name.encode(), value=orjson.dumps(document), partition=1
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


def _ignore(*_: object) -> None:
    """Skip a record that no client can parse."""
