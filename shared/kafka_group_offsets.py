"""A Kafka admin client that distinguishes a group without offsets from one whose coordinator is not ready.

aiokafka drops the error of an OffsetFetch response (its `list_consumer_group_offsets` reads the topics
alone), so a coordinator that still loads its log looks like a group without commits. The error
of a coordinator that is moving or new passes within seconds.  The response is decoded partition by partition
instead of field by field, because a group may have thousands of them.
"""

import asyncio
import time
from collections.abc import Iterable
from struct import Struct
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    NotCoordinatorForGroupError,
    for_code,
)
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.protocol.types import Array, Int16, Int32, Schema, String
from aiokafka.structs import OffsetAndMetadata

from shared.kafka_schemas import VariableRows
from shared.kafka_topic_ids import NamedTopic, TopicIdsRequest, named_topics, topic_ids

_AGAIN_SECONDS: Final = 0.2
#: The group's coordinator is moving or loading, or its log is being created.
_NOT_READY: Final = (
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    NotCoordinatorForGroupError,
)


_TEXT: Final = String("utf-8")
#: A partition: number, offset, and the bytes of the metadata (-1: none); the error is behind the metadata.
_HEAD: Final = Struct(">iqh")
_ERROR: Final = Struct(">h")


def _partition_at(buffer: memoryview, at: int) -> tuple[tuple[int, int, str | None, int], int]:
    """Read the partition at an offset as (number, offset, metadata, error)."""
    number, offset, size = _HEAD.unpack_from(buffer, at)
    at += _HEAD.size
    metadata = None if size < 0 else str(buffer[at : at + size], "utf-8")
    at += max(size, 0)
    (error,) = _ERROR.unpack_from(buffer, at)
    return (number, offset, metadata, error), at + _ERROR.size


class _OffsetFetchResponse(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = 9
    API_VERSION = 3
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("topics", Array(("topic", _TEXT), ("partitions", VariableRows(_partition_at)))),
        ("error_code", Int16),
    )


class _OffsetFetchRequestV3(RequestStruct):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = 9
    API_VERSION = 3
    RESPONSE_TYPE = _OffsetFetchResponse
    SCHEMA = Schema(
        ("consumer_group", _TEXT), ("topics", Array(("topic", _TEXT), ("partitions", Array(Int32))))
    )


class _PackedOffsetFetchRequest(Request[_OffsetFetchRequestV3]):  # type: ignore[misc]  # as above
    API_KEY = 9

    def __init__(self, request: OffsetFetchRequest) -> None:
        self._fields = request._consumer_group, request._partitions  # noqa: SLF001 - it has no public fields

    def build(self, request_struct_class: type[_OffsetFetchRequestV3]) -> _OffsetFetchRequestV3:
        """Return the request."""
        return request_struct_class(*self._fields)


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
        if isinstance(request, OffsetFetchRequest):
            request = _PackedOffsetFetchRequest(request)
        answer = await super()._send_request(request, node_id)
        if node_id is not None and (code := getattr(answer, "error_code", 0)):
            raise for_code(code)
        return answer
