"""The sink that is Kafka: `acks=all`, idempotent, within a deadline and a byte budget.

`send` groups records by partition, hands each group to its lane and waits for at most the
deadline.  The deadline is ours because aiokafka has none with idempotence; a request that
gives up never takes its neighbours' batch with it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Final

from aiokafka import AIOKafkaProducer

from services.ingest.send.byte_budget import ByteBudget
from services.ingest.send.departures import Departures
from services.ingest.send.kafka_producer import ProducerManager
from services.ingest.send.kafka_topics import PartitionsOf, TopicManager
from services.ingest.send.partition_queue import BatchResult, PartitionQueue, RequestSlice, Way, give_up
from services.ingest.send.second_producer import SecondProducer, asking_slowly
from services.ingest.sink import Health, Receipt, Record, SendResult
from shared import wire
from shared.errors import (
    EVENT_TOO_LARGE,
    INTERNAL,
    KAFKA_UNREACHABLE,
    SHUTTING_DOWN,
    InfrastructureError,
    OnrampError,
    UserError,
)
from shared.settings import KafkaSettings

logger = logging.getLogger(__name__)

_SWEEP_SECONDS: Final = 0.1
_HEALTH_SECONDS: Final = 0.5
#: Large enough that a batch of 500 is one record batch, small enough for the default
#: max.message.bytes of 1 MB.
_BATCH_BYTES: Final = 512 * 1024
#: A record's frame, key and headers: what the broker counts beside the value.
_RECORD_OVERHEAD: Final = 1024
_REQUEST_TIMEOUT_MS: Final = 5000
_RETRY_BACKOFF_MS: Final = 50
#: What a partition refuses, it refuses for a while: its broker need not be asked at once.
_SECOND_BACKOFF_MS: Final = 100
#: How soon a partition that was added is used.
_METADATA_AGE_MS: Final = 60_000


#: Without a pause between departures, not compressed.
_PLAIN: Final = Way()


class KafkaSink:
    """Sends through lanes; made and stopped by `app.py`."""

    def __init__(
        self,
        kafka: KafkaSettings,
        budget: ByteBudget,
        deadline_seconds: float,
        wedged_seconds: float,
        partitions_of: PartitionsOf = lambda _: None,
        *,
        way: Way = _PLAIN,
    ) -> None:
        self._kafka = kafka
        self._budget = budget
        self._deadline_seconds = deadline_seconds
        self._topics = TopicManager(kafka, partitions_of)
        self._seconds = ProducerManager(self._build_second, wedged_seconds)
        self._second = SecondProducer(self._seconds.now, self._topics.forget)
        self._producers = ProducerManager(self._build, wedged_seconds, self._second)
        self._departures = Departures(self._producers, way.linger_seconds)
        self._codec = way.codec
        self._lanes: dict[tuple[str, int], PartitionQueue] = {}
        self._counts: dict[str, int] = {}
        self._deadlines: deque[tuple[float, RequestSlice]] = deque()
        self._sweeper: asyncio.Task[None] | None = None
        self._health: tuple[float, Health] | None = None
        self._asking: asyncio.Task[Health] | None = None
        self._closed = False

    async def start(self) -> None:
        """Begin to connect; returns at once, Kafka may be down."""
        self._producers.start()
        self._seconds.start()
        self._sweeper = asyncio.create_task(self._sweep(), name="sink-sweeper")

    async def stop(self, within: float) -> None:
        """Wait at most `within` seconds for what somebody waits for, then give up the rest."""
        self._closed = True
        awaited = [part.landed for _, part in self._deadlines if not part.landed.done()]
        if awaited:
            await asyncio.wait(awaited, timeout=within)
        await self._departures.stop()
        await asyncio.gather(*(lane.stop() for lane in self._lanes.values()))
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.wait([self._sweeper])
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])
        await self._topics.stop()
        await asyncio.gather(self._producers.stop(), self._seconds.stop())

    async def health(self) -> Health:
        """Ask the cluster, one question at a time and two a second, however many probes there are."""
        now = asyncio.get_running_loop().time()
        if self._health is not None and now - self._health[0] <= _HEALTH_SECONDS:
            return self._health[1]
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask(), name="health")
        # Shielded: a probe that leaves takes nobody else's answer along.
        return await asyncio.shield(self._asking)

    async def _ask(self) -> Health:
        health = await self._topics.health()
        self._health = (asyncio.get_running_loop().time(), health)
        return health

    async def send(self, records: Sequence[Record]) -> list[SendResult]:
        """One outcome per record, in order, within the deadline."""
        if self._closed:
            return [InfrastructureError(SHUTTING_DOWN, "the sink is closed") for _ in records]
        deadline = asyncio.get_running_loop().time() + self._deadline_seconds
        outcomes: list[SendResult | None] = [None] * len(records)
        parts: list[RequestSlice] = []
        for topic, places in (await self._prepared(records, outcomes, deadline)).items():
            for partition, group in self._by_partition(topic, places, records, outcomes).items():
                parts += self._lane(topic, partition).put(records, group)
        self._watch(parts, deadline)
        for part in parts:
            _stamp(outcomes, records, part, await part.landed)
        return _complete(outcomes)

    def _watch(self, parts: list[RequestSlice], deadline: float) -> None:
        if self._deadlines and deadline < self._deadlines[-1][0]:
            # Preparing a topic took its time and others overtook: the sweeper looks at the
            # first deadline only, so this one is watched by itself.
            for part in parts:
                asyncio.get_running_loop().call_at(deadline, give_up, {part}, self._deadline_seconds)
        else:
            self._deadlines.extend((deadline, part) for part in parts)

    async def _prepared(
        self, records: Sequence[Record], outcomes: list[SendResult | None], deadline: float
    ) -> dict[str, list[int]]:
        """The places of each topic that is ready; the records of the others get their outcome."""
        topics: dict[str, list[int]] = {}
        for place, record in enumerate(records):
            topics.setdefault(record.topic, []).append(place)
        unready = [topic for topic in topics if self._partitions(topic) is None]
        if not unready:
            return topics
        failures = await asyncio.gather(*(self._prepare(topic, deadline) for topic in unready))
        for topic, failure in zip(unready, failures, strict=True):
            if failure is not None:
                for place in topics.pop(topic):
                    outcomes[place] = failure
        return topics

    def _partitions(self, topic: str) -> int | None:
        """How many partitions the topic has, None if it must be ensured first."""
        if self._topics.known(topic) is None:
            return None
        # The producer's metadata follow a growing topic; between producers the last count holds.
        count = self._producers.partitions(topic) or self._counts.get(topic)
        if count is not None:
            self._counts[topic] = count
        return count

    async def _prepare(self, topic: str, deadline: float) -> OnrampError | None:
        try:
            async with asyncio.timeout_at(deadline):
                await self._topics.ensure(topic)
                self._counts[topic] = await self._producers.count_partitions(topic)
        except InfrastructureError as e:
            return e
        except TimeoutError:
            return InfrastructureError(KAFKA_UNREACHABLE, "Kafka did not answer in time")
        except Exception:
            logger.exception("a topic could not be prepared", extra={"topic": topic})
            return InfrastructureError(INTERNAL, "nothing was sent to Kafka").surely(accepted=False)
        return None

    def _by_partition(
        self, topic: str, places: list[int], records: Sequence[Record], outcomes: list[SendResult | None]
    ) -> dict[int, list[int]]:
        partitions, limit = self._counts[topic], self._limit(topic)
        room = limit - _RECORD_OVERHEAD
        groups: dict[int, list[int]] = {}
        for place in places:
            record = records[place]
            key = record.key
            if len(record.value) + len(key) > room:
                outcomes[place] = UserError(EVENT_TOO_LARGE, f"the topic takes at most {limit} bytes")
            else:
                groups.setdefault(wire.partition_of(key, partitions), []).append(place)
        return groups

    def _limit(self, topic: str) -> int:
        state = self._topics.known(topic)
        return _BATCH_BYTES if state is None else state.max_message_bytes

    def _lane(self, topic: str, partition: int) -> PartitionQueue:
        lane = self._lanes.get((topic, partition))
        if lane is None:
            lane = PartitionQueue(
                topic,
                partition,
                departures=self._departures,
                producers=self._producers,
                budget=self._budget,
                surprised=partial(self._topics.forget, topic),
                codec=self._codec,
            )
            self._lanes[topic, partition] = lane
        lane.batch_bytes = min(_BATCH_BYTES, self._limit(topic))
        return lane

    async def _sweep(self) -> None:
        """Answer the requests whose deadline has passed, and forget what nobody waits for."""
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            if self._expire(clock()):
                for lane in self._lanes.values():
                    lane.drop_abandoned()

    def _expire(self, now: float) -> bool:
        late: set[RequestSlice] = set()
        while self._deadlines and (self._deadlines[0][1].landed.done() or self._deadlines[0][0] <= now):
            _, part = self._deadlines.popleft()
            if not part.landed.done():
                late.add(part)
        give_up(late, self._deadline_seconds)
        return bool(late)

    def _build_second(self) -> AIOKafkaProducer:
        return asking_slowly(self._build("onramp-ingest-second", _SECOND_BACKOFF_MS))

    def _build(
        self, client_id: str = "onramp-ingest", retry_backoff_ms: int = _RETRY_BACKOFF_MS
    ) -> AIOKafkaProducer:
        return AIOKafkaProducer(
            **self._kafka.brokers.aiokafka(),
            client_id=client_id,
            acks="all",
            enable_idempotence=True,
            request_timeout_ms=_REQUEST_TIMEOUT_MS,
            retry_backoff_ms=retry_backoff_ms,
            metadata_max_age_ms=_METADATA_AGE_MS,
        )


def _stamp(
    outcomes: list[SendResult | None], records: Sequence[Record], part: RequestSlice, landing: BatchResult
) -> None:
    if isinstance(landing, OnrampError):
        for place in part.places:
            outcomes[place] = landing
        return
    known = landing >= 0
    topic = records[part.places[0]].topic
    for offset, place in enumerate(part.places, landing + part.first):
        outcomes[place] = Receipt(topic, part.partition, offset if known else None)


def _complete(outcomes: list[SendResult | None]) -> list[SendResult]:
    complete = [outcome for outcome in outcomes if outcome is not None]
    if len(complete) != len(outcomes):
        raise AssertionError(f"{len(outcomes) - len(complete)} records have no outcome")
    return complete
