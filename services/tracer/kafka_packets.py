"""The entrance that is Kafka itself: a packet that names the tracer's own table in each database.

Owns aiokafka for this service.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from services.tracer.entrances import RefusedError
from services.tracer.rows_sql import PACKET_SCHEMA
from shared import wire
from shared.kafka_security import Brokers

NAME: Final = "kafka"
_TIMEOUT_MS: Final = 10_000


class Packets:
    """A producer that is started with the first packet, and again after a failure."""

    def __init__(self, brokers: Brokers, databases: Sequence[str]) -> None:
        self._brokers = brokers
        self._databases = databases
        self._producer: Any = None

    async def send(self, tracer_id: str) -> None:
        """Write a packet, and return when Kafka has it.  Raises `RefusedError`."""
        destinations = [
            {"type": "postgres", "vanity": name, "schema": PACKET_SCHEMA, "table": wire.PROBE_EVENT}
            for name in self._databases
        ]
        data = {"id": tracer_id, "entrance": NAME, "sent_at": datetime.now(UTC).isoformat()}
        packet = {"pipeline_context": {"destinations": destinations}, "data": data}
        try:
            producer = await self._started()
            await producer.send_and_wait(
                wire.topic_of(wire.PROBE_EVENT),
                orjson.dumps(packet),
                key=tracer_id.encode(),
                headers=[(wire.HEADER_CONTEXT, wire.CONTEXT_BYTES)],
            )
        except (KafkaError, OSError) as e:
            await self.stop()
            raise RefusedError(f"Kafka: {type(e).__name__}") from None

    async def stop(self) -> None:
        """Stop the producer."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.stop()

    async def _started(self) -> Any:
        if self._producer is None:
            producer = AIOKafkaProducer(
                **self._brokers.aiokafka(),
                acks="all",
                enable_idempotence=True,
                request_timeout_ms=_TIMEOUT_MS,
            )
            await producer.start()
            self._producer = producer
        return self._producer
