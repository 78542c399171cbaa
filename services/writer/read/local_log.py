"""Requests the start of the part of a log that is on the leader's own disk (KIP-405, tiered storage).

Earlier records come from a remote store.  If the store is too slow, the leader returns an empty response, as
if there were no records.  An empty response is reliable only for the part on the leader's own disk.
"""

from collections import defaultdict
from collections.abc import Collection
from typing import Any, Final

from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Int8, Int16, Int32, Int64

from services.writer.model.offsets import Partition
from shared.kafka_schemas import flexible_by_partition

_CONSUMER: Final = -1
_ANY_EPOCH: Final = -1
_READ_COMMITTED: Final = 1
_EARLIEST_LOCAL: Final = -4
_EVERYWHERE: Final = 0


class _StartsResponse(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = 2
    API_VERSION = 8
    SCHEMA = flexible_by_partition(
        ("throttle_time_ms", Int32),
        partition=(
            ("partition", Int32),
            ("error_code", Int16),
            ("timestamp", Int64),
            ("offset", Int64),
            ("leader_epoch", Int32),
        ),
    )


class _StartsRequestV8(RequestStruct):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = 2
    API_VERSION = 8
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = _StartsResponse
    SCHEMA = flexible_by_partition(
        ("replica_id", Int32),
        ("isolation_level", Int8),
        partition=(("partition", Int32), ("current_leader_epoch", Int32), ("timestamp", Int64)),
    )


class LocalStartsRequest(Request[_StartsRequestV8]):  # type: ignore[misc]  # aiokafka has no types
    """A request for the starts of the local parts of partitions."""

    API_KEY = 2

    def __init__(self, partitions: Collection[Partition]) -> None:
        self.partitions = partitions

    def build(self, request_struct_class: type[_StartsRequestV8]) -> _StartsRequestV8:
        """Return the request."""
        topics: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
        for p in self.partitions:
            topics[p.topic].append((p.number, _ANY_EPOCH, _EARLIEST_LOCAL, {}))
        requested: list[Any] = [(topic, numbers, {}) for topic, numbers in topics.items()]
        return request_struct_class(_CONSUMER, _READ_COMMITTED, requested, {})


async def local_starts(
    client: AIOKafkaClient, node: int, partitions: Collection[Partition]
) -> dict[Partition, int]:
    """Return the first offset of each partition on the disk of `node`; partitions with errors are missing.

    Raise aiokafka's errors.
    """
    try:
        answer = await client.send(node, LocalStartsRequest(partitions))
    except NotImplementedError:  # Kafka before 3.6, which has no remote store
        return dict.fromkeys(partitions, _EVERYWHERE)
    return {
        Partition(topic, number): offset
        for topic, numbers, _ in answer.topics
        for number, error, _, offset, *_ in numbers
        if not error
    }
