"""The driver's admin client: what any broker can tell is asked of another where one is gone or silent.

aiokafka asks a broker by chance, also one that is gone by now, and is patient with one that is
frozen: an answer that two of three brokers have would end the writer's session.
"""

import asyncio
import random
from typing import Any, Final

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    NodeNotReadyError,
    RequestTimedOutError,
    StaleMetadata,
)

from shared.kafka_security import Brokers

#: A broker that takes longer is passed over, while there is another; each round has twice the patience.
_BROKER_SECONDS: Final = 1.5
_ROUNDS: Final = 4
_AGAIN_SECONDS: Final = 0.2
#: For what one certain broker must answer.
_REQUEST_MS: Final = 8_000
_UNANSWERED: Final = (
    KafkaConnectionError,
    NodeNotReadyError,
    RequestTimedOutError,
    StaleMetadata,
    TimeoutError,
)


class AnyBroker(AIOKafkaAdminClient):  # type: ignore[misc]  # aiokafka has no types
    """An admin client that one broker's silence does not stop."""

    def __init__(self, brokers: Brokers) -> None:
        super().__init__(**brokers.aiokafka(), request_timeout_ms=_REQUEST_MS)
        #: They did not answer when they were asked last.
        self._silent: set[int] = set()

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
            await asyncio.sleep(_AGAIN_SECONDS)  # it looks anew which brokers there are
        raise error if isinstance(error, KafkaError) else RequestTimedOutError

    async def _ask(self, node: int, request: Any, seconds: float) -> Any:
        async with asyncio.timeout(seconds):
            answer = await self._client.send(node, request)
        self._silent.discard(node)
        return answer

    def _by_silence(self) -> list[int]:
        """The brokers in any order; those that were silent last."""
        nodes = [broker.nodeId for broker in self._client.cluster.brokers()]
        random.shuffle(nodes)
        return sorted(nodes, key=self._silent.__contains__)
