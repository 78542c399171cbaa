"""Requests a group's offsets as they are when no transaction is open (OffsetFetch 7, KIP-447).

aiokafka implements version 3, which returns offsets while the transaction of a later commit still ends.
"""

import asyncio
from typing import Any, Final, NamedTuple

from aiokafka.client import AIOKafkaClient, ConnectionGroup, CoordinationType
from aiokafka.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaConnectionError,
    NodeNotReadyError,
    NotCoordinatorError,
    RequestTimedOutError,
    for_code,
)
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Boolean, CompactArray, CompactString, Int16, Int32, Int64, Schema

from shared.kafka_read.offsets import Partition
from shared.kafka_schemas import TAGS

_API: Final = 9
_AGAIN_SECONDS: Final = 0.05
#: The error code of an offset whose transaction has not ended.
_UNSTABLE: Final = 88
_RETRIABLE: Final = (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaConnectionError,
    NodeNotReadyError,
    NotCoordinatorError,
    RequestTimedOutError,
)


class _ResponseV7(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = _API
    API_VERSION = 7
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(
                ("name", CompactString("utf-8")),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("offset", Int64),
                        ("leader_epoch", Int32),
                        ("metadata", CompactString("utf-8")),
                        ("error_code", Int16),
                        TAGS,
                    ),
                ),
                TAGS,
            ),
        ),
        ("error_code", Int16),
        TAGS,
    )


class _RequestV7(RequestStruct):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = _API
    API_VERSION = 7
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = _ResponseV7
    SCHEMA = Schema(
        ("group", CompactString("utf-8")),
        ("topics", CompactArray(("name", CompactString("utf-8")), ("partitions", CompactArray(Int32)), TAGS)),
        ("require_stable", Boolean),
        TAGS,
    )


class StableOffsetsRequest(Request[_RequestV7]):  # type: ignore[misc]  # aiokafka has no types
    """Requests all offsets of a group."""

    API_KEY = _API

    def __init__(self, group: str) -> None:
        self._group = group

    def build(self, request_struct_class: type[_RequestV7]) -> _RequestV7:
        """Return the request."""
        return request_struct_class(self._group, None, True, {})


class Committed(NamedTuple):
    """A committed offset and its metadata."""

    offset: int
    metadata: str


async def stable_offsets(client: AIOKafkaClient, group: str) -> dict[Partition, Committed]:
    """Return the offsets of `group`; retry until no transaction is open and the coordinator answers.

    The caller sets the timeout.  Raise aiokafka's other errors.
    """
    while True:
        try:
            node = await client.coordinator_lookup(CoordinationType.GROUP, group)
            answer = await client.send(node, StableOffsetsRequest(group), group=ConnectionGroup.COORDINATION)
            if answer.error_code:
                raise for_code(answer.error_code)
            offsets = _offsets(answer)
        except _RETRIABLE:
            offsets = None
        if offsets is not None:
            return offsets
        await asyncio.sleep(_AGAIN_SECONDS)


def _offsets(answer: Any) -> dict[Partition, Committed] | None:
    """Return the offsets; None if a transaction is open.  Raise aiokafka's errors."""
    offsets: dict[Partition, Committed] = {}
    for topic, partitions, _ in answer.topics:
        for number, offset, _epoch, metadata, error, _tags in partitions:
            if error == _UNSTABLE:
                return None
            if error:
                raise for_code(error)
            if offset >= 0:
                offsets[Partition(topic, number)] = Committed(offset, metadata or "")
    return offsets
