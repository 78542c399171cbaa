"""Reads Onramp's topics and event topics, without a consumer group.

Owns aiokafka for the admin service.  Nothing is written, and no offset is committed.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError
from aiokafka.protocol.offset import OffsetResetStrategy

from services.ops.findings import Source
from services.ops.kafka_packed_requests import LeadersRequest, OffsetsRequest
from services.ops.kafka_requests import SizesRequest
from shared import wire
from shared.errors import KAFKA_UNAVAILABLE, InfrastructureError
from shared.kafka_group_offsets import GroupOffsetsClient
from shared.kafka_security import Brokers
from shared.kafka_topic_ids import NamedTopic
from shared.polling import poll

log = logging.getLogger(__name__)

_POLL_MS: Final = 200
_FETCH_WAIT_MS: Final = 25
#: For a reader that follows the end of a log: the broker answers at the first record, or after this time.
FOLLOWING_WAIT_MS: Final = 250
_TIMEOUT_MS: Final = 10_000
#: Maximum partitions of one request for leaders, so that a consumer gets them in time.
_FEW: Final = 10
#: Seconds that a group's coordinator may take to move, to load its log, or to be created.
_COORDINATOR_SECONDS: Final = 10.0
#: The times of a log's first and end offset, and the end that excludes open transactions, as for readers.
_EARLIEST: Final = OffsetResetStrategy.EARLIEST
_LATEST: Final = OffsetResetStrategy.LATEST
_READ_UNCOMMITTED: Final = 0
_READ_COMMITTED: Final = 1
#: A topic, and the number, leader (-1: none) and replicas of each partition.
_Described = tuple[str, list[tuple[int, int, int]]]
#: Empty polls in a row before a check of the leaders.
_SILENT_POLLS: Final = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """A record as Kafka holds it.  `timestamp` is in milliseconds since 1970."""

    source: Source
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes]
    #: The number of its headers; of two with one name the last counts.
    header_count: int


class Poll(NamedTuple):
    """Records, and the next offset of each partition: after the last record, or after holes."""

    records: list[LogRecord]
    next_offsets: dict[Source, int]


class KafkaLogs:
    """A reader of one Kafka cluster; a context manager with one read at a time.

    Every method raises `InfrastructureError` when Kafka cannot be reached.  A partition without a leader
    is excluded from reads, because it would block all others, and is listed in `leaderless`.
    """

    def __init__(self, brokers: Brokers, *, fetch_wait_ms: int = _FETCH_WAIT_MS) -> None:
        """`fetch_wait_ms`: time that a broker waits at a log's end before it answers a fetch."""
        self._brokers = brokers
        self._fetch_wait_ms = fetch_wait_ms
        #: The settings of every client of this cluster.
        self._common = {**brokers.aiokafka(), "request_timeout_ms": _TIMEOUT_MS}
        self._parts = AsyncExitStack()
        self._admin: Any = None
        self._consumer: Any = None
        #: Partitions that could not be read at the last request.
        self.leaderless: set[Source] = set()

    async def __aenter__(self) -> Self:
        with self._translated():
            async with AsyncExitStack() as parts:
                self._admin = GroupOffsetsClient(**self._common)
                parts.push_async_callback(self._admin.close)
                await self._admin.start()
                self._consumer = AIOKafkaConsumer(
                    **self._common,
                    enable_auto_commit=False,
                    auto_offset_reset="none",
                    # A fetch that waits at one log's end delays the first fetch of the next log.
                    fetch_max_wait_ms=self._fetch_wait_ms,
                    isolation_level="read_committed",
                )
                parts.push_async_callback(self._consumer.stop)
                await self._consumer.start()
                self._parts = parts.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._parts.aclose()

    async def topics(self) -> dict[str, list[int]]:
        """Return the partitions of every topic."""
        return {topic: sorted(leaders) for topic, leaders in (await self._leaders()).items()}

    async def topic_ids(self) -> dict[str, str]:
        """Return Kafka's UUIDs of all topics; a recreated topic has a new one."""
        with self._translated():
            return dict(await self._admin.topic_ids())

    async def named_topics(self, *names: str) -> dict[str, NamedTopic]:
        """Return those of `names` that exist.  Kafka sends no other topic: a cluster may have thousands."""
        with self._translated():
            return dict(await self._admin.named_topics(names))

    async def replicas(self) -> dict[str, dict[int, int]]:
        """Return the number of replicas of each partition, by topic."""
        return _replicas_in(await self._described_topics())

    async def leaders_and_replicas(self) -> tuple[dict[str, dict[int, int]], dict[str, dict[int, int]]]:
        """Return the leader (-1: none) and the number of replicas of each partition, by topic."""
        topics = await self._described_topics()
        return _leaders_in(topics), _replicas_in(topics)

    async def offsets_at(self, sources: Iterable[Source], timestamp: int) -> dict[Source, int]:
        """Return each partition's first offset from `timestamp` (ms) on; none if nothing came since."""
        asked = {TopicPartition(*source): timestamp for source in sources}
        if not asked:
            return {}
        with self._translated():
            async with self._knowing(list(asked)) as consumer:
                found = await consumer.offsets_for_times(asked)
        return {Source(*p): at.offset for p, at in found.items() if at is not None}

    async def _leaders(self) -> dict[str, dict[int, int]]:
        """Return the broker that leads each partition, by topic; -1 where none does."""
        return _leaders_in(await self._described_topics())

    async def _described_topics(self) -> list[_Described]:
        """Return all topics with their partitions."""
        with self._translated():
            answer = await self._admin._send_request(LeadersRequest())  # noqa: SLF001
        return [(topic, partitions) for _, topic, _, partitions in answer.topics]

    async def positions(self, leaders: Mapping[Source, int]) -> dict[Source, tuple[int, int]]:
        """Return the first and the end offset of each partition, of which `leaders` names the broker.

        Costs two requests per broker, and no consumer.  A partition that moved to another broker is absent.
        """
        firsts, ends = await self.first_offsets(leaders), await self.end_offsets(leaders)
        return {source: (first, ends[source]) for source, first in firsts.items() if source in ends}

    async def first_offsets(self, leaders: Mapping[Source, int]) -> dict[Source, int]:
        """Return the first offset of each partition, by one request per broker."""
        return await self._offsets_led(leaders, _EARLIEST)

    async def end_offsets(self, leaders: Mapping[Source, int]) -> dict[Source, int]:
        """Return the end offset of each partition, by one request per broker."""
        return await self._offsets_led(leaders, _LATEST)

    async def _offsets_led(self, leaders: Mapping[Source, int], at: int) -> dict[Source, int]:
        by_broker: dict[int, dict[str, list[int]]] = {}
        for source, broker in leaders.items():
            by_broker.setdefault(broker, {}).setdefault(source.topic, []).append(source.partition)
        found: dict[Source, int] = {}
        with self._translated():
            for broker, topics in by_broker.items():
                found |= await self._offsets(broker, topics, at)
        return found

    async def ends_with_open(self, topics: Iterable[str]) -> dict[Source, int]:
        """Return the end of each partition of `topics` that has a leader, also behind open transactions."""
        described, by_broker = await self._leaders(), dict[int, dict[str, list[int]]]()
        for topic in topics:
            for number, broker in described.get(topic, {}).items():
                if broker >= 0:
                    by_broker.setdefault(broker, {}).setdefault(topic, []).append(number)
        found: dict[Source, int] = {}
        with self._translated():
            for broker, of_broker in by_broker.items():
                found |= await self._offsets(broker, of_broker, _LATEST, _READ_UNCOMMITTED)
        return found

    async def _offsets(
        self, broker: int, topics: Mapping[str, list[int]], at: int, isolation: int = _READ_COMMITTED
    ) -> dict[Source, int]:
        wanted = [(topic, [(number, at) for number in numbers]) for topic, numbers in topics.items()]
        answer = await self._admin._send_request(OffsetsRequest(isolation, wanted), broker)  # noqa: SLF001
        return {
            Source(topic, number): offset
            for topic, partitions in answer.topics
            for number, error, _, offset in partitions
            if not error
        }

    async def spans(self, topics: Iterable[str]) -> dict[Source, tuple[int, int]]:
        """Return the first and the end offset of each partition of `topics` that has a leader."""
        leaders = await self._leaders()
        return await self._spans_led(
            {Source(topic, n): leaders[topic][n] for topic in topics for n in sorted(leaders.get(topic, ()))}
        )

    async def spans_of(self, topics: Mapping[str, NamedTopic]) -> dict[Source, tuple[int, int]]:
        """Return what `spans` returns, for `named_topics`, without a request for all topics."""
        return await self._spans_led(
            {Source(t, n): leader for t, topic in topics.items() for n, leader in topic.leaders.items()}
        )

    async def _spans_led(self, asked: Mapping[Source, int]) -> dict[Source, tuple[int, int]]:
        """Return the first and the end offset of each partition, by the broker that leads it."""
        without = {source for source, leader in asked.items() if leader < 0}
        self.leaderless = (self.leaderless - asked.keys()) | without
        partitions = [TopicPartition(*source) for source in asked.keys() - without]
        if not partitions:
            return {}
        with self._translated():
            async with self._knowing(partitions) as consumer:
                starts = await consumer.beginning_offsets(partitions)
                ends = await consumer.end_offsets(partitions)
        return {Source(*p): (starts[p], ends[p]) for p in partitions}

    @asynccontextmanager
    async def _knowing(self, partitions: list[TopicPartition]) -> AsyncIterator[AIOKafkaConsumer]:
        """Yield a consumer that knows who leads `partitions`.

        It gives up at a hundred others than it reads.  So one of their own has them all to read, and
        reads none.
        """
        assigned = self._consumer.assignment()
        if len(set(partitions) - assigned) <= _FEW:
            topics = {partition.topic for partition in (*partitions, *assigned)}
            # Otherwise it gets the leaders a tenth of a second after the first request for offsets.
            await self._consumer._client.set_topics(topics)  # noqa: SLF001 - no public method waits
            yield self._consumer
            return
        consumer = AIOKafkaConsumer(
            **self._common, enable_auto_commit=False, isolation_level="read_committed"
        )
        try:
            await consumer.start()
            consumer.assign(partitions)
            yield consumer
        finally:
            await consumer.stop()

    async def settings(self, topics: Iterable[str], *names: str) -> dict[str, dict[str, str]]:
        """Return the settings of `topics`, all or those of these names; none of a deleted topic."""
        only = dict.fromkeys(names)
        asked = [ConfigResource(ConfigResourceType.TOPIC, topic, only or None) for topic in topics]
        if not asked:
            return {}
        with self._translated():
            answers = await self._admin.describe_configs(asked)
        return {
            name: {entry[0]: entry[1] for entry in entries}
            for answer in answers
            for error, _, _, name, entries in answer.resources
            if not error
        }

    async def sizes(self) -> dict[str, dict[int, int]]:
        """Return the bytes of each partition by topic: of its largest copy, of those whose brokers answer.

        A user who may not ask for them gets none.
        """
        found: dict[str, dict[int, int]] = {}
        with self._translated():
            brokers = (await self._admin.describe_cluster())["brokers"]
            for broker in brokers:
                try:
                    answer = await self._admin._send_request(SizesRequest(), broker["node_id"])  # noqa: SLF001
                except (KafkaError, OSError):
                    continue  # other replicas report it, or none does
                for _, _, topics in answer.dirs:
                    for topic, partitions in topics:
                        sizes = found.setdefault(topic, {})
                        for number, size, *_ in partitions:
                            sizes[number] = max(size, sizes.get(number, 0))
        return found

    async def whole(self, topic: str) -> AsyncIterator[LogRecord]:
        """Yield the records of `topic`, from its start to where it ends now; none if it is not there."""
        async for record in self.read(await self.spans([topic])):
            yield record

    async def group_offsets(self, *sources: Source) -> dict[Source, int]:
        """Return the committed offsets of the writer's group, of all partitions or of `sources`."""
        offsets = await self.offsets_of_group(wire.WRITER_GROUP, *sources)
        return {source: offset for source, (offset, _) in offsets.items()}

    async def offsets_of_group(self, group: str, *sources: Source) -> dict[Source, tuple[int, str]]:
        """Return a group's committed offsets with their metadata, of all partitions or of `sources`."""
        partitions = [TopicPartition(*source) for source in sources] or None
        with self._translated():
            offsets = await self._admin.group_offsets(group, _COORDINATOR_SECONDS, partitions)
        return {
            Source(p.topic, p.partition): (each.offset, each.metadata or "")
            for p, each in offsets.items()
            if each.offset >= 0
        }

    async def read(self, spans: Mapping[Source, tuple[int, int]]) -> AsyncGenerator[LogRecord]:
        """Yield the records in `spans` (first and end offset).

        In the order of offsets within a partition.  Compaction and transactions leave holes.
        """
        ends = {TopicPartition(*s): end for s, (first, end) in spans.items() if first < end}
        self._seek({s: first for s, (first, end) in spans.items() if first < end})
        left, silent = set(ends), 0
        while left:
            with self._translated():
                polled = await poll(self._consumer, _warn_unreadable, *left, timeout_ms=_POLL_MS)
            silent = 0 if polled else silent + 1
            if silent % _SILENT_POLLS == _SILENT_POLLS - 1:
                await self._require_leaders(left)
            for partition, records in polled.items():
                for record in records:
                    if record.offset < ends[partition]:
                        yield _record(record)
            # The consumer's position determines the end, because the last offsets may be holes.
            left = {p for p in left if await self._consumer.position(p) < ends[p]}

    async def _require_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        """Raise `InfrastructureError` if a partition has lost its leader and returns no records."""
        leaders = await self._leaders()
        lost = [Source(*p) for p in partitions if leaders.get(p.topic, {}).get(p.partition, -1) < 0]
        if lost:
            raise InfrastructureError(KAFKA_UNAVAILABLE, no_leader(lost))

    async def follow(self, since: Mapping[Source, int]) -> AsyncIterator[LogRecord]:
        """Yield records from `since` on, forever."""
        self._seek(since)
        while since:
            with self._translated():
                polled = await poll(self._consumer, _warn_unreadable, timeout_ms=_POLL_MS)
            for records in polled.values():
                for record in records:
                    yield _record(record)

    async def polls(self, since: Mapping[Source, int]) -> AsyncIterator[Poll]:
        """Yield each poll from `since` on, forever, also empty ones."""
        self._seek(since)
        while since:
            with self._translated():
                polled = await poll(self._consumer, _warn_unreadable, timeout_ms=_POLL_MS)
                ends = {s: await self._consumer.position(TopicPartition(*s)) for s in since}
            yield Poll([_record(record) for records in polled.values() for record in records], ends)

    def stop_fetching(self) -> None:
        """End the fetches at the ends of the last read's logs, for a caller that pauses; a read resumes."""
        self._consumer.pause(*self._consumer.assignment())

    def _seek(self, since: Mapping[Source, int]) -> None:
        offsets = {TopicPartition(*s): offset for s, offset in since.items()}
        if offsets:
            self._consumer.assign(list(offsets))
        for partition, offset in offsets.items():
            self._consumer.seek(partition, offset)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (KafkaError, OSError) as e:
            raise InfrastructureError(
                KAFKA_UNAVAILABLE, f"Kafka at {self._brokers} cannot be read: {type(e).__name__}"
            ) from None


def _leaders_in(topics: Iterable[_Described]) -> dict[str, dict[int, int]]:
    return {topic: {number: leader for number, leader, _ in of_topic} for topic, of_topic in topics}


def _replicas_in(topics: Iterable[_Described]) -> dict[str, dict[int, int]]:
    return {topic: {number: replicas for number, _, replicas in of_topic} for topic, of_topic in topics}


def no_leader(of: Iterable[Source]) -> str:
    """Return why partitions cannot be read, and the fix."""
    names = ", ".join(map(str, sorted(of)))
    return f"no broker leads {names}: start the one that holds it, or move it to another"


def _warn_unreadable(topic: str, partition: int, offset: int) -> None:
    log.warning(
        "skipped an unreadable record: the key of a header is not UTF-8",
        extra={"topic": topic, "partition": partition, "offset": offset},
    )


def _record(record: Any) -> LogRecord:
    return LogRecord(
        source=Source(record.topic, record.partition),
        offset=record.offset,
        timestamp=record.timestamp,
        key=record.key,
        value=record.value,
        headers=dict(record.headers),
        header_count=len(record.headers),
    )
