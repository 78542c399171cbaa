"""Asks partitions' leaders where a log begins and ends, under which epoch, and where an older one's ended.

A log that was cut, by a crash, an unclean election or a restored disk, goes on under a later
leader epoch, and its leader knows where that epoch began.  aiokafka asks neither, and of begins it
waits until every leader answers, so the requests are here, and with them aiokafka's protocol.  A
partition that has no leader, or one that is silent, is left out of the answer and holds up no other.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, Self

from aiokafka import TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError, for_code
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Int8, Int16, Int32, Int64, Schema, String

from services.writer.model.offsets import Partition
from shared.kafka_security import Brokers

log = logging.getLogger(__name__)

#: Kafka's word for "none" and "unknown" in every field below.
_NONE: Final = -1
_READ_UNCOMMITTED: Final = 0
_READ_COMMITTED: Final = 1
_LATEST: Final = -1
_EARLIEST: Final = -2
_AGAIN_SECONDS: Final = 0.1
#: A broker that takes longer is left out for now: a frozen one must not hold up the others.
_BROKER_MS: Final = 1500
#: The topic is gone, the broker that was asked does not lead the partition (yet), or its disk is away.
_ASK_ANOTHER_TIME: Final = frozenset({3, 5, 6, 9, 56, 74, 75, 78})


class Tip(NamedTuple):
    """The end of a partition's committed records, and the epoch of the leader that says so."""

    offset: int
    epoch: int


class _EndsResponse(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = 2
    API_VERSION = 4
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            Array(
                ("topic", String("utf-8")),
                (
                    "partitions",
                    Array(
                        ("partition", Int32),
                        ("error_code", Int16),
                        ("timestamp", Int64),
                        ("offset", Int64),
                        ("leader_epoch", Int32),
                    ),
                ),
            ),
        ),
    )


class _EndsRequestV4(RequestStruct):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = 2
    API_VERSION = 4
    RESPONSE_TYPE = _EndsResponse
    SCHEMA = Schema(
        ("replica_id", Int32),
        ("isolation_level", Int8),
        (
            "topics",
            Array(
                ("topic", String("utf-8")),
                (
                    "partitions",
                    Array(("partition", Int32), ("current_leader_epoch", Int32), ("timestamp", Int64)),
                ),
            ),
        ),
    )


class _EpochsResponse(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = 23
    API_VERSION = 3
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            Array(
                ("topic", String("utf-8")),
                (
                    "partitions",
                    Array(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader_epoch", Int32),
                        ("end_offset", Int64),
                    ),
                ),
            ),
        ),
    )


class _EpochsRequestV3(RequestStruct):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = 23
    API_VERSION = 3
    RESPONSE_TYPE = _EpochsResponse
    SCHEMA = Schema(
        ("replica_id", Int32),
        (
            "topics",
            Array(
                ("topic", String("utf-8")),
                (
                    "partitions",
                    Array(("partition", Int32), ("current_leader_epoch", Int32), ("leader_epoch", Int32)),
                ),
            ),
        ),
    )


_Topics = list[tuple[str, list[tuple[int, ...]]]]


class _EndsRequest(Request[_EndsRequestV4]):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = 2

    def __init__(self, topics: _Topics, isolation: int = _READ_COMMITTED) -> None:
        self._topics = topics
        self._isolation = isolation

    def build(self, request_struct_class: type[_EndsRequestV4]) -> _EndsRequestV4:
        return request_struct_class(_NONE, self._isolation, self._topics)


class _EpochsRequest(Request[_EpochsRequestV3]):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = 23

    def __init__(self, topics: _Topics) -> None:
        self._topics = topics

    def build(self, request_struct_class: type[_EpochsRequestV3]) -> _EpochsRequestV3:
        return request_struct_class(_NONE, self._topics)


class Leaders:
    """The leaders of the partitions that the writer reads."""

    def __init__(self, brokers: Brokers) -> None:
        self._client = AIOKafkaClient(**brokers.aiokafka(), request_timeout_ms=_BROKER_MS)
        #: Errors that partitions answered with, each said once until it is over.
        self._said: dict[Partition, int] = {}

    async def start(self) -> Self:
        """Connect.  Raises aiokafka's errors."""
        await self._client.bootstrap()
        return self

    async def stop(self) -> None:
        """Disconnect."""
        await self._client.close()

    async def follow(self, topics: Iterable[str]) -> None:
        """Know the leaders of `topics`, in place of those before."""
        await self._client.set_topics(sorted(set(topics)))

    async def beginning_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The first offset of each partition; one whose leader does not answer now is left out."""
        answers = await self._ask(dict.fromkeys(partitions, (_NONE, _EARLIEST)), _EndsRequest)
        return {p: offset for p, (_, offset, _) in answers.items()}

    async def end_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Where each log ends, with what is not committed (yet); one that does not answer is left out."""
        request = partial(_EndsRequest, isolation=_READ_UNCOMMITTED)
        answers = await self._ask(dict.fromkeys(partitions, (_NONE, _LATEST)), request)
        return {p: offset for p, (_, offset, _) in answers.items()}

    async def since(self, partitions: Iterable[Partition], when: float) -> dict[Partition, int | None]:
        """The first record made at `when` (seconds since 1970) or later; None where there is none."""
        answers = await self._ask(dict.fromkeys(partitions, (_NONE, int(when * 1000))), _EndsRequest)
        return {p: None if offset == _NONE else offset for p, (_, offset, _) in answers.items()}

    async def tips(self, partitions: Iterable[Partition], *, patient: bool) -> dict[Partition, Tip]:
        """Where each partition ends; one whose leader does not answer now is left out.

        `patient`: while no broker at all answers, ask until the caller has no more patience.
        """
        asked = dict.fromkeys(partitions, (_NONE, _LATEST))
        answers = await self._ask(asked, _EndsRequest, patient=patient)
        return {p: Tip(offset, epoch) for p, (_, offset, epoch) in answers.items()}

    async def reached(self, epochs: Mapping[Partition, int]) -> dict[Partition, int]:
        """Where leaders later than those of `epochs` began to write: all below is of these or older ones.

        The log's end where there was no later one, and below 0 where the leader knows none that old
        as the newest: its own epochs went back.  One that does not answer now is left out.
        """
        answers = await self._ask({p: (_NONE, e) for p, e in epochs.items()}, _EpochsRequest)
        return {p: end for p, (_, end) in answers.items()}

    async def _ask(
        self,
        asked: Mapping[Partition, tuple[int, ...]],
        request: Callable[[_Topics], Any],
        *,
        patient: bool = False,
    ) -> dict[Partition, tuple[int, ...]]:
        """One request for each broker; what fails is left out, or when all fail asked again if `patient`."""
        while True:
            by_node = self._by_leader(asked)
            sent = [self._client.send(node, request(topics)) for node, topics in by_node.items()]
            answers = await asyncio.gather(*sent, return_exceptions=True)
            responses = [a for a in answers if not isinstance(a, BaseException)]
            for failure in (a for a in answers if isinstance(a, BaseException)):
                if not isinstance(failure, KafkaError):
                    raise failure
                self._client.force_metadata_update()
            if responses or not sent or not patient:
                return {p: found for r in responses for p, found in self._answered(r).items()}
            await asyncio.sleep(_AGAIN_SECONDS)

    def _by_leader(self, asked: Mapping[Partition, tuple[int, ...]]) -> dict[int, _Topics]:
        """What to ask of each broker; of partitions without a leader nobody is asked now."""
        found: dict[int, dict[str, list[tuple[int, ...]]]] = defaultdict(lambda: defaultdict(list))
        for p, question in asked.items():
            node = self._client.cluster.leader_for_partition(TopicPartition(*p))
            if node is None or node == _NONE:
                self._client.force_metadata_update()
            else:
                found[node][p.topic].append((p.number, *question))
        return {node: list(topics.items()) for node, topics in found.items()}

    def _answered(self, response: Any) -> dict[Partition, tuple[int, ...]]:
        found: dict[Partition, tuple[int, ...]] = {}
        ends = response.API_KEY == _EndsResponse.API_KEY
        for topic, partitions in response.topics:
            for first, second, *rest in partitions:
                number, code = (first, second) if ends else (second, first)
                if code == 0:
                    found[Partition(topic, number)] = tuple(rest)
                    self._said.pop(Partition(topic, number), None)
                else:
                    self._client.force_metadata_update()
                    self._say(Partition(topic, number), code)
        return found

    def _say(self, p: Partition, code: int) -> None:
        """Say what somebody may have to mend; leaders that change are everyday."""
        if code in _ASK_ANOTHER_TIME or self._said.get(p) == code:
            return
        self._said[p] = code
        log.error(
            "Kafka does not say where a partition begins or ends: it waits, the others go on",
            extra={"topic": p.topic, "partition": p.number, "reason": for_code(code).__name__},
        )
