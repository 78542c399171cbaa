"""The states of transforms on Kafka, as operators set them; `reader` reads them."""

import getpass
from datetime import UTC, datetime

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from shared import transform_state, wire
from shared.errors import KAFKA_UNAVAILABLE, InfrastructureError
from shared.kafka_security import Brokers
from shared.transform_state import TransformState


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
