"""Requests the topics' UUIDs from Kafka, which identify a topic generation.

aiokafka lacks the protocol version with UUIDs (Kafka 2.8, KIP-516).
"""

from io import BytesIO
from typing import Any
from uuid import UUID

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    AbstractType,
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
)

from shared.kafka_schemas import TAGS

_NOBODY = UUID(int=0)


class _Uuid(AbstractType[UUID]):  # type: ignore[misc]  # aiokafka has no types
    @classmethod
    def encode(cls, value: UUID) -> bytes:
        return value.bytes

    @classmethod
    def decode(cls, data: BytesIO) -> UUID:
        return UUID(bytes=data.read(16))


_PARTITION = (
    ("error_code", Int16),
    ("partition", Int32),
    ("leader", Int32),
    ("leader_epoch", Int32),
    ("replicas", CompactArray(Int32)),
    ("isr", CompactArray(Int32)),
    ("offline", CompactArray(Int32)),
    TAGS,
)


class _MetadataResponse(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = 3
    API_VERSION = 10
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node", Int32),
                ("host", CompactString("utf-8")),
                ("port", Int32),
                ("rack", CompactString("utf-8")),
                TAGS,
            ),
        ),
        ("cluster_id", CompactString("utf-8")),
        ("controller", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("name", CompactString("utf-8")),
                ("topic_id", _Uuid),
                ("is_internal", Boolean),
                ("partitions", CompactArray(*_PARTITION)),
                ("operations", Int32),
                TAGS,
            ),
        ),
        ("operations", Int32),
        TAGS,
    )


class _MetadataRequestV10(RequestStruct):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = 3
    API_VERSION = 10
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = _MetadataResponse
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(("topic_id", _Uuid), ("name", CompactString("utf-8")), TAGS),
        ),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
        TAGS,
    )


class TopicIdsRequest(Request[_MetadataRequestV10]):  # type: ignore[misc]  # aiokafka has no types
    """A metadata request for all topics, with their UUIDs."""

    API_KEY = 3

    def build(self, request_struct_class: type[_MetadataRequestV10]) -> _MetadataRequestV10:
        """Return the request for all topics, without creation of topics."""
        everything = None
        return request_struct_class(everything, False, False, False, {})


def topic_ids(answer: Any) -> dict[str, str]:
    """Return the UUIDs by topic from the response to `TopicIdsRequest`."""
    return {topic[1]: str(topic[2]) for topic in answer.topics if topic[2] != _NOBODY}
