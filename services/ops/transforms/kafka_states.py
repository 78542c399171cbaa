"""The states of transforms on Kafka, as operators read and set them."""

import getpass
from datetime import UTC, datetime

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from services.ops.findings import Source
from services.ops.kafka_logs import KafkaLogs
from shared import transform_state, wire
from shared.errors import KAFKA_UNAVAILABLE, InfrastructureError
from shared.kafka_security import Brokers
from shared.transform_state import StateRecord, TransformState


async def states(brokers: Brokers) -> dict[str, TransformState]:
    """Return the last state of each transform that has one.  Raise `InfrastructureError`."""
    found: dict[str, TransformState] = {}
    async with KafkaLogs(brokers) as logs:
        spans = await logs.spans([wire.TRANSFORMERS])
        partition = Source(wire.TRANSFORMERS, transform_state.PARTITION)
        if partition in spans:
            async for record in logs.read({partition: spans[partition]}):
                if parsed := StateRecord.parse(record.key, record.value):
                    found[parsed.transform] = parsed.state
    return found


async def set_state(
    brokers: Brokers, name: str, state: str, reason: str, *, by: str = "", accept: bool = False
) -> None:
    """Write a state.  Raise `InfrastructureError`; the state is then unknown, and may be written again.

    `accept`: positions outside of the log move to its nearest end, once.
    """
    at = datetime.now(UTC).isoformat()
    new = TransformState(state=state, reason=reason, at=at, by=by or getpass.getuser(), accept=accept)
    producer = AIOKafkaProducer(**brokers.aiokafka(), acks="all")
    try:
        await producer.start()
        await producer.send_and_wait(
            wire.TRANSFORMERS,
            key=transform_state.key_of(name),
            value=new.value(),
            partition=transform_state.PARTITION,
        )
    except (KafkaError, OSError) as e:
        raise InfrastructureError(
            KAFKA_UNAVAILABLE, f"Kafka at {brokers} did not accept the state: {type(e).__name__}"
        ) from None
    finally:
        await producer.stop()
