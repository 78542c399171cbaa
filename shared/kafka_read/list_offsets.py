"""Kafka's ListOffsets request in two versions, which aiokafka lacks.

Version 4 returns the epoch of the answering leader.  Version 8 (Kafka 3.6) knows the start of the part of a
log that is on the leader's own disk (KIP-405, tiered storage).
"""

from typing import Any, Final

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Int8, Int16, Int32, Int64

from shared.kafka_schemas import by_partition, flexible_by_partition

LATEST: Final = -1
EARLIEST: Final = -2
EARLIEST_LOCAL: Final = -4
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
_API: Final = 2
#: The replica id of a consumer.
_CONSUMER: Final = -1
_ANSWER: Final = (
    ("partition", Int32),
    ("error_code", Int16),
    ("timestamp", Int64),
    ("offset", Int64),
    ("leader_epoch", Int32),
)
_QUESTION: Final = (("partition", Int32), ("current_leader_epoch", Int32), ("timestamp", Int64))

#: Topics with a question for each partition, in the order of `_QUESTION`.
Topics = list[tuple[str, list[tuple[int, ...]]]]


class _ResponseV4(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = _API
    API_VERSION = 4
    SCHEMA = by_partition(("throttle_time_ms", Int32), partition=_ANSWER)


class _RequestV4(RequestStruct):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = _API
    API_VERSION = 4
    RESPONSE_TYPE = _ResponseV4
    SCHEMA = by_partition(("replica_id", Int32), ("isolation_level", Int8), partition=_QUESTION)


class _ResponseV8(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = _API
    API_VERSION = 8
    SCHEMA = flexible_by_partition(("throttle_time_ms", Int32), partition=_ANSWER)


class _RequestV8(RequestStruct):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = _API
    API_VERSION = 8
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = _ResponseV8
    SCHEMA = flexible_by_partition(("replica_id", Int32), ("isolation_level", Int8), partition=_QUESTION)


class ListOffsetsRequest(Request[_RequestV4]):  # type: ignore[misc]  # aiokafka has no types
    """Requests offsets by time, or the first or the end offset."""

    API_KEY = _API

    def __init__(self, topics: Topics, isolation: int = READ_COMMITTED) -> None:
        self._topics = topics
        self._isolation = isolation

    def build(self, request_struct_class: type[_RequestV4]) -> _RequestV4:
        """Return the request."""
        return request_struct_class(_CONSUMER, self._isolation, self._topics)


class LocalOffsetsRequest(Request[_RequestV8]):  # type: ignore[misc]  # aiokafka has no types
    """Requests offsets of the part of a log on the leader's own disk."""

    API_KEY = _API

    def __init__(self, topics: Topics) -> None:
        self.topics = topics

    def build(self, request_struct_class: type[_RequestV8]) -> _RequestV8:
        """Return the request."""
        tagged: list[Any] = [
            (topic, [(*each, {}) for each in questions], {}) for topic, questions in self.topics
        ]
        return request_struct_class(_CONSUMER, READ_COMMITTED, tagged, {})
