"""The driver's connections to Kafka: topics and their ends, the group's offsets, and `onramp.lake`."""

from collections.abc import Callable, Collection, Iterable
from contextlib import AsyncExitStack
from typing import Final, NamedTuple, Self

from aiokafka import AIOKafkaConsumer, TopicPartition

from services.lake.driver.kafka_producer import LakeProducer
from services.lake.driver.lake_log import LakeLog
from shared import wire
from shared.kafka_own_topics import OwnTopics
from shared.kafka_read.any_broker import AnyBroker
from shared.kafka_read.leaders import Leaders
from shared.kafka_read.offsets import Partition
from shared.polling import read_to
from shared.settings import KafkaSettings
from shared.topics import LAKE_TOPICS

#: A new Kafka creates the groups' topic at the first request for a coordinator.
_COORDINATOR_SECONDS: Final = 15.0
_READ_SECONDS: Final = 10.0
_LOG: Final = TopicPartition(wire.LAKE, 0)


class Committed(NamedTuple):
    """A committed offset of the group, and the topic generation that it belongs to."""

    offset: int
    topic_id: str


class LakeCluster:
    """The connections of one session."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._admin = AnyBroker(settings.brokers)
        self._leaders = Leaders(settings.brokers)
        self._followed: set[str] = set()
        self.producer = LakeProducer(settings.brokers)
        self._stack = AsyncExitStack()

    async def start(self) -> Self:
        """Connect, create the topic, and fence earlier drivers.  Raise aiokafka's and Onramp's errors."""
        for start, stop in (
            (self._admin.start, self._admin.close),
            (self._leaders.start, self._leaders.stop),
        ):
            self._stack.push_async_callback(stop)
            await start()
        await OwnTopics(self._admin, self._settings, LAKE_TOPICS).ensure()
        self._stack.push_async_callback(self.producer.stop)
        await self.producer.start()
        return self

    async def stop(self) -> None:
        """Disconnect, in reverse order."""
        await self._stack.aclose()

    async def cluster_id(self) -> str:
        """Return the cluster's id, which changes if the cluster is set up again."""
        return str((await self._admin.describe_cluster())["cluster_id"])

    async def read_log(self) -> LakeLog:
        """Read `onramp.lake` to its end; call it after `start`, so that no earlier driver appends."""
        log = LakeLog()
        consumer = AIOKafkaConsumer(
            **self._settings.brokers.aiokafka(), enable_auto_commit=False, isolation_level="read_committed"
        )
        async with AsyncExitStack() as stack:
            stack.push_async_callback(consumer.stop)
            await consumer.start()
            consumer.assign([_LOG])
            await consumer.seek_to_beginning(_LOG)
            ends = await consumer.end_offsets([_LOG])
            async for record in read_to(consumer, _skip, ends, _READ_SECONDS):
                log.read(record.key, record.value)
        return log

    async def group_offsets(self) -> dict[Partition, Committed]:
        """Return the group's committed offsets.  Raise aiokafka's errors."""
        offsets = await self._admin.group_offsets(wire.LAKE_GROUP, _COORDINATOR_SECONDS)
        return {
            Partition(p.topic, p.partition): Committed(o.offset, o.metadata or "")
            for p, o in offsets.items()
            if o.offset >= 0
        }

    async def partitions(self, is_read: Callable[[str], bool]) -> dict[Partition, str]:
        """Return the partitions of the topics that are read, with their topic ids."""
        topics = await self._admin.describe_topics()
        ids = await self._admin.topic_ids()
        partitions = {
            Partition(t["topic"], p["partition"]): ids[t["topic"]]
            for t in topics
            if not t["is_internal"] and t["topic"] in ids and is_read(t["topic"])
            for p in t["partitions"]
        }
        names = {p.topic for p in partitions}
        if names and names != self._followed:
            await self._leaders.follow(names)
            self._followed = names
        return partitions

    async def beginnings(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return each partition's first offset; partitions without an answer are missing."""
        return await self._leaders.beginning_offsets(partitions)

    async def ends(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return the end of each partition's committed records; partitions without an answer are missing."""
        last_stable = await self._leaders.last_stable_offsets(partitions, patient=False)
        return {p: each.offset for p, each in last_stable.items()}

    async def retentions(self, topics: Collection[str]) -> dict[str, float]:
        """Return the retention of each topic in seconds; topics with unlimited retention are missing."""
        return await self._admin.retentions(topics)


def _skip(*_: object) -> None:
    """Skip a record that no client can parse: it is another client's."""
