"""Requests first and end offsets, leader epochs, and the ends of older epochs from partitions' leaders.

A log that was cut by a crash, an unclean election or a restored disk continues under a later leader
epoch, and its leader knows the offset at which that epoch began.  aiokafka has no request for epochs, and
its request for first offsets waits for every leader.  So this module defines the requests, with aiokafka's
protocol classes.  A partition without a leader, or with a silent one, is missing from the result and
delays no other.
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
from aiokafka.protocol.types import Int16, Int32, Int64

from shared.kafka_read.list_offsets import (
    EARLIEST,
    LATEST,
    READ_UNCOMMITTED,
    ListOffsetsRequest,
    Topics,
)
from shared.kafka_read.offsets import Partition
from shared.kafka_schemas import by_partition
from shared.kafka_security import Brokers

log = logging.getLogger(__name__)

#: Value for "none" and "unknown" in Kafka's protocol, in every field below.
_NONE: Final = -1
_AGAIN_SECONDS: Final = 0.1
#: Timeout of a broker, after which its answers are missing: a frozen broker must not delay the others.
_BROKER_MS: Final = 1500
#: Retriable error codes: the topic is missing, the broker does not lead the partition, or its disk failed.
ASK_ANOTHER_TIME: Final = frozenset({3, 5, 6, 9, 56, 74, 75, 78})


class StableOffset(NamedTuple):
    """A partition's last stable offset, which is the end of its committed records, and its leader's epoch."""

    offset: int
    epoch: int


class _EpochsResponse(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = 23
    API_VERSION = 3
    SCHEMA = by_partition(
        ("throttle_time_ms", Int32),
        partition=(
            ("error_code", Int16),
            ("partition", Int32),
            ("leader_epoch", Int32),
            ("end_offset", Int64),
        ),
    )


class _EpochsRequestV3(RequestStruct):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = 23
    API_VERSION = 3
    RESPONSE_TYPE = _EpochsResponse
    SCHEMA = by_partition(
        ("replica_id", Int32),
        partition=(("partition", Int32), ("current_leader_epoch", Int32), ("leader_epoch", Int32)),
    )


class _EpochsRequest(Request[_EpochsRequestV3]):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = 23

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    def build(self, request_struct_class: type[_EpochsRequestV3]) -> _EpochsRequestV3:
        return request_struct_class(_NONE, self._topics)


class Leaders:
    """A client that sends one request to each broker, for the partitions that the broker leads."""

    def __init__(self, brokers: Brokers, client: AIOKafkaClient | None = None) -> None:
        """`client`: a started client that already follows the topics."""
        self._client = client or AIOKafkaClient(**brokers.aiokafka(), request_timeout_ms=_BROKER_MS)
        #: The last error code of each partition; an error is logged once until it ends.
        self._logged: dict[Partition, int] = {}

    async def start(self) -> Self:
        """Connect.  Raise aiokafka's errors."""
        await self._client.bootstrap()
        return self

    async def stop(self) -> None:
        """Disconnect."""
        await self._client.close()

    async def follow(self, topics: Iterable[str]) -> None:
        """Follow the metadata of `topics`, which replace earlier ones."""
        await self._client.set_topics(sorted(set(topics)))

    async def beginning_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return each partition's first offset; partitions without an answer are missing."""
        answers = await self._ask(dict.fromkeys(partitions, (_NONE, EARLIEST)), ListOffsetsRequest)
        return {p: offset for p, (_, offset, _) in answers.items()}

    async def end_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return each log's end offset, including uncommitted records; logs without an answer are missing."""
        request = partial(ListOffsetsRequest, isolation=READ_UNCOMMITTED)
        answers = await self._ask(dict.fromkeys(partitions, (_NONE, LATEST)), request)
        return {p: offset for p, (_, offset, _) in answers.items()}

    async def since(self, partitions: Iterable[Partition], when: float) -> dict[Partition, int | None]:
        """Return the first offset with a timestamp of `when` (seconds since 1970) or later, or None."""
        answers = await self._ask(dict.fromkeys(partitions, (_NONE, int(when * 1000))), ListOffsetsRequest)
        return {p: None if offset == _NONE else offset for p, (_, offset, _) in answers.items()}

    async def last_stable_offsets(
        self, partitions: Iterable[Partition], *, patient: bool
    ) -> dict[Partition, StableOffset]:
        """Return the last stable offset of each partition; partitions without an answer are missing.

        `patient`: while no broker answers, retry until the caller cancels.
        """
        questions = dict.fromkeys(partitions, (_NONE, LATEST))
        answers = await self._ask(questions, ListOffsetsRequest, patient=patient)
        return {p: StableOffset(offset, epoch) for p, (_, offset, epoch) in answers.items()}

    async def reached(self, epochs: Mapping[Partition, int]) -> dict[Partition, int]:
        """Return the offsets at which leaders later than `epochs` began to write.

        All records below are of these or older epochs.  The offset is the log's end if there was no later
        leader, and negative if the leader knows no epoch as late, because its own epochs went back.
        Partitions without an answer are missing.
        """
        answers = await self._ask({p: (_NONE, e) for p, e in epochs.items()}, _EpochsRequest)
        return {p: end for p, (_, end) in answers.items()}

    async def _ask(
        self,
        questions: Mapping[Partition, tuple[int, ...]],
        request: Callable[[Topics], Any],
        *,
        patient: bool = False,
    ) -> dict[Partition, tuple[int, ...]]:
        """Send one request to each broker; failures are missing; if all fail and `patient`, retry."""
        while True:
            by_node = self._by_leader(questions)
            sent = [self._client.send(node, request(topics)) for node, topics in by_node.items()]
            answers = await asyncio.gather(*sent, return_exceptions=True)
            responses = [a for a in answers if not isinstance(a, BaseException)]
            for failure in (a for a in answers if isinstance(a, BaseException)):
                if not isinstance(failure, KafkaError):
                    raise failure
                self._client.force_metadata_update()
            if responses or not sent or not patient:
                return {p: fields for r in responses for p, fields in self._answered(r).items()}
            await asyncio.sleep(_AGAIN_SECONDS)

    def _by_leader(self, questions: Mapping[Partition, tuple[int, ...]]) -> dict[int, Topics]:
        """Group `questions` by the broker that leads the partition, excluding partitions without a leader."""
        by_node: dict[int, dict[str, list[tuple[int, ...]]]] = defaultdict(lambda: defaultdict(list))
        for p, question in questions.items():
            if (node := leader_of(self._client, p)) is not None:
                by_node[node][p.topic].append((p.number, *question))
        return {node: list(topics.items()) for node, topics in by_node.items()}

    def _answered(self, response: Any) -> dict[Partition, tuple[int, ...]]:
        answers: dict[Partition, tuple[int, ...]] = {}
        ends = response.API_KEY == ListOffsetsRequest.API_KEY
        for topic, partitions in response.topics:
            for first, second, *rest in partitions:
                number, code = (first, second) if ends else (second, first)
                if code == 0:
                    answers[Partition(topic, number)] = tuple(rest)
                    self._logged.pop(Partition(topic, number), None)
                else:
                    self._client.force_metadata_update()
                    self._log_error(Partition(topic, number), code)
        return answers

    def _log_error(self, p: Partition, code: int) -> None:
        """Log an error that an operator may have to fix, once; changes of leaders are not logged."""
        if code in ASK_ANOTHER_TIME or self._logged.get(p) == code:
            return
        self._logged[p] = code
        log.error(
            "Kafka does not return a partition's offsets: the partition waits, the others continue",
            extra={"topic": p.topic, "partition": p.number, "reason": for_code(code).__name__},
        )


def leader_of(client: AIOKafkaClient, p: Partition) -> int | None:
    """Return the broker that leads `p`; if there is none, return None and make `client` refresh metadata."""
    node = client.cluster.leader_for_partition(TopicPartition(*p))
    if node is None or node == _NONE:
        client.force_metadata_update()
        return None
    return int(node)
