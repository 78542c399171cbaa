"""The driver's admin client: sends a request to another broker if one is down or silent.

aiokafka sends a request to a random broker, perhaps one that is down by now, and waits long for a frozen
one.  It would fail, and end the writer's session, although two of three brokers could answer.
"""

import asyncio
import random
from collections.abc import Iterable
from typing import Any, Final

from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    NodeNotReadyError,
    RequestTimedOutError,
    StaleMetadata,
)

from shared.kafka_group_offsets import GroupOffsetsClient
from shared.kafka_security import Brokers

#: Seconds before a slow broker is skipped in favor of another; each round waits twice as long.
_BROKER_SECONDS: Final = 1.5
_ROUNDS: Final = 4
_AGAIN_SECONDS: Final = 0.2
_RETENTION: Final = "retention.ms"
#: Timeout of requests that only one specific broker can answer.
_REQUEST_MS: Final = 8_000
_UNANSWERED: Final = (
    KafkaConnectionError,
    NodeNotReadyError,
    RequestTimedOutError,
    StaleMetadata,
    TimeoutError,
)


class AnyBroker(GroupOffsetsClient):
    """An admin client that tolerates a silent broker.  It raises aiokafka's errors after `_ROUNDS` rounds."""

    def __init__(self, brokers: Brokers) -> None:
        super().__init__(**brokers.aiokafka(), request_timeout_ms=_REQUEST_MS)
        #: Ids of brokers that did not answer the last request.
        self._silent: set[int] = set()

    async def retentions(self, topics: Iterable[str]) -> dict[str, float]:
        """Return the retention of each topic in seconds; topics with unlimited retention are missing.

        Raise aiokafka's errors.
        """
        requested = [ConfigResource(ConfigResourceType.TOPIC, topic, {_RETENTION: ""}) for topic in topics]
        answers = await self.describe_configs(requested) if requested else []
        described = [each for answer in answers for each in answer.resources]
        retentions = {name: int(settings[0][1]) for error, _, _, name, settings in described if not error}
        return {name: milliseconds / 1000 for name, milliseconds in retentions.items() if milliseconds >= 0}

    async def _send_request(self, request: Any, node_id: int | None = None) -> Any:
        if node_id is not None:
            return await super()._send_request(request, node_id)
        error: Exception = NodeNotReadyError("no broker is known")
        for n in range(_ROUNDS):
            for node in self._by_silence():
                try:
                    return await self._ask(node, request, _BROKER_SECONDS * 2**n)
                except _UNANSWERED as e:
                    self._silent.add(node)
                    self._client.force_metadata_update()
                    error = e
            await asyncio.sleep(_AGAIN_SECONDS)  # meanwhile the client refreshes its list of brokers
        raise error if isinstance(error, KafkaError) else RequestTimedOutError

    async def _ask(self, node: int, request: Any, seconds: float) -> Any:
        async with asyncio.timeout(seconds):
            answer = await self._client.send(node, request)
        self._silent.discard(node)
        return answer

    def _by_silence(self) -> list[int]:
        """Return the brokers in random order, silent brokers last."""
        nodes = [broker.nodeId for broker in self._client.cluster.brokers()]
        random.shuffle(nodes)
        return sorted(nodes, key=self._silent.__contains__)
