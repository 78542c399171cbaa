"""Requests the topics' UUIDs from Kafka, which identify a topic generation.

aiokafka lacks the protocol version with UUIDs (Kafka 2.8, KIP-516).
"""

from collections.abc import Iterable, Mapping
from io import BytesIO
from typing import Any, Final, NamedTuple
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


_NO_ERROR: Final = 0


class TopicIdsRequest(Request[_MetadataRequestV10]):  # type: ignore[misc]  # aiokafka has no types
    """A metadata request for all topics or for named ones, with their UUIDs."""

    API_KEY = 3

    def __init__(self, names: Iterable[str] | None = None) -> None:
        self._topics: list[Any] | None = None if names is None else [(_NOBODY, name, {}) for name in names]

    def build(self, request_struct_class: type[_MetadataRequestV10]) -> _MetadataRequestV10:
        """Return the request, without creation of topics."""
        return request_struct_class(self._topics, False, False, False, {})


class NamedTopic(NamedTuple):
    """A topic's UUID, and the broker that leads each partition: -1 where none does."""

    topic_id: str
    leaders: Mapping[int, int]


def named_topics(answer: Any) -> dict[str, NamedTopic]:
    """Return the topics that exist, from the response to `TopicIdsRequest`."""
    return {
        name: NamedTopic(str(topic_id), {p[1]: p[2] for p in partitions})
        for error, name, topic_id, _, partitions, *_ in answer.topics
        if error == _NO_ERROR
    }


def topic_ids(answer: Any) -> dict[str, str]:
    """Return the UUIDs by topic from the response to `TopicIdsRequest`."""
    return {topic[1]: str(topic[2]) for topic in answer.topics if topic[2] != _NOBODY}
