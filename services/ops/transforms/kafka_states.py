"""The states of transforms on Kafka: operators pause and resume them, and so does the service by itself."""

import getpass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import orjson
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from services.ops.findings import Source
from services.ops.kafka_logs import KafkaLogs
from shared import wire
from shared.errors import KAFKA_UNAVAILABLE, InfrastructureError
from shared.kafka_security import Brokers

#: Partition 0 has the epochs of drivers: a state there would look like a new epoch.
_PARTITION: Final = 1
_STATE: Final = "state:"
RUNNING: Final = "running"
PAUSED: Final = "paused"


class TransformState(NamedTuple):
    """The state of a transform; `by` is empty for a pause by the service."""

    state: str = RUNNING
    reason: str = ""
    at: str = ""
    by: str = ""


async def states(brokers: Brokers) -> dict[str, TransformState]:
    """Return the last state of each transform that has one.  Raise `InfrastructureError`."""
    found: dict[str, TransformState] = {}
    async with KafkaLogs(brokers) as logs:
        spans = await logs.spans([wire.TRANSFORMERS])
        partition = Source(wire.TRANSFORMERS, _PARTITION)
        if partition in spans:
            async for record in logs.read({partition: spans[partition]}):
                name = (record.key or b"").decode("utf-8", "replace")
                if name.startswith(_STATE) and (state := _state_in(record.value)) is not None:
                    found[name.removeprefix(_STATE)] = state
    return found


async def set_state(
    brokers: Brokers, name: str, state: str, reason: str, *, by: str = "", accept: bool = False
) -> None:
    """Write a state.  Raise `InfrastructureError`; the state is then unknown, and may be written again.

    `accept`: positions outside of the log move to its nearest end, once.
    """
    value = {
        "state": state,
        "reason": reason,
        "at": datetime.now(UTC).isoformat(),
        "by": by or getpass.getuser(),
        **({"accept": True} if accept else {}),
    }
    producer = AIOKafkaProducer(**brokers.aiokafka(), acks="all")
    try:
        await producer.start()
        await producer.send_and_wait(
            wire.TRANSFORMERS,
            key=f"{_STATE}{name}".encode(),
            value=orjson.dumps(value),
            partition=_PARTITION,
        )
    except (KafkaError, OSError) as e:
        raise InfrastructureError(
            KAFKA_UNAVAILABLE, f"Kafka at {brokers} did not accept the state: {type(e).__name__}"
        ) from None
    finally:
        await producer.stop()


def _state_in(value: bytes | None) -> TransformState | None:
    try:
        document: Any = orjson.loads(value or b"")
    except orjson.JSONDecodeError:
        return None
    if not isinstance(document, dict) or document.get("state") not in {RUNNING, PAUSED}:
        return None
    return TransformState(*(str(document.get(field) or "") for field in TransformState._fields))
