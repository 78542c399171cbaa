"""A Kafka admin client that distinguishes a group without offsets from one whose coordinator is not ready.

aiokafka drops the error of an OffsetFetch response (its `list_consumer_group_offsets` reads the topics
alone), so a coordinator that still loads its log looks like a group without commits. The error
of a coordinator that is moving or new passes within seconds.
"""

import asyncio
import time
from collections.abc import Iterable
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    NotCoordinatorForGroupError,
    for_code,
)
from aiokafka.structs import OffsetAndMetadata

from shared.kafka_topic_ids import NamedTopic, TopicIdsRequest, named_topics, topic_ids

_AGAIN_SECONDS: Final = 0.2
#: The group's coordinator is moving or loading, or its log is being created.
_NOT_READY: Final = (
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    NotCoordinatorForGroupError,
)


class GroupOffsetsClient(AIOKafkaAdminClient):  # type: ignore[misc]  # aiokafka has no types
    """An admin client that raises the error in the response of a given broker."""

    async def group_offsets(
        self, group: str, seconds: float, partitions: list[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets of `group`; wait up to `seconds` for a coordinator that is not ready.

        `partitions`: only theirs.  Raises aiokafka's errors.
        """
        until = time.monotonic() + seconds
        while True:
            try:
                return dict(await self.list_consumer_group_offsets(group, partitions=partitions))
            except _NOT_READY:
                if time.monotonic() >= until:
                    raise
            await asyncio.sleep(_AGAIN_SECONDS)

    async def topic_ids(self) -> dict[str, str]:
        """Return Kafka's UUIDs of all topics.  Raises aiokafka's errors."""
        return topic_ids(await self._send_request(TopicIdsRequest()))

    async def named_topics(self, names: Iterable[str]) -> dict[str, NamedTopic]:
        """Return those of `names` that exist; Kafka sends no other topic.  Raises aiokafka's errors."""
        return named_topics(await self._send_request(TopicIdsRequest(names)))

    async def _send_request(self, request: Any, node_id: int | None = None) -> Any:
        answer = await super()._send_request(request, node_id)
        if node_id is not None and (code := getattr(answer, "error_code", 0)):
            raise for_code(code)
        return answer
