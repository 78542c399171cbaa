"""The sink that is Kafka: `acks=all`, idempotent, within a deadline and a byte budget.

`send` groups records by partition, hands each group to the partition's queue and waits for at
most the deadline. The gateway has its own deadline because aiokafka has none with idempotence; a request that
times out never fails other requests in its batch.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from time import monotonic
from typing import Final

from aiokafka import AIOKafkaProducer

from services.ingest.send.byte_budget import ByteBudget
from services.ingest.send.kafka_producer import ProducerManager
from services.ingest.send.kafka_topics import SpecOf, TopicManager
from services.ingest.send.late_requests import fail_late
from services.ingest.send.partition_queue import (
    BatchOptions,
    BatchResult,
    BatchTooLargeError,
    PartitionQueue,
    RequestSlice,
)
from services.ingest.send.second_producer import SecondProducer, pause_metadata_requests
from services.ingest.send.send_timer import SendTimer
from services.ingest.sink import Health, Receipt, Record, SendResult
from shared.errors import (
    EVENT_TOO_LARGE,
    INTERNAL,
    KAFKA_UNREACHABLE,
    SHUTTING_DOWN,
    InfrastructureError,
    OnrampError,
    UserError,
)
from shared.partitioner import partition_of
from shared.settings import KafkaSettings
from shared.topics import event_topic

logger = logging.getLogger(__name__)

_SWEEP_SECONDS: Final = 0.1
_HEALTH_SECONDS: Final = 0.5
#: Large enough that a batch of 500 is one record batch; the default max.message.bytes is 1 MB.
_BATCH_BYTES: Final = 512 * 1024
#: A record's frame, key and headers, which the broker counts in addition to the value.
_RECORD_OVERHEAD: Final = 1024
_REQUEST_TIMEOUT_MS: Final = 5000
_RETRY_BACKOFF_MS: Final = 50
#: A partition rejects batches for a while, so they need not be retried at once.
_SECOND_BACKOFF_MS: Final = 100
#: Maximum time until an added partition is used.
_METADATA_AGE_MS: Final = 60_000
#: No pause between sends, and no compression.
_DEFAULT_OPTIONS: Final = BatchOptions()


class KafkaSink:
    """Sends to Kafka through a queue per partition; constructed and stopped by `app.py`."""

    def __init__(
        self,
        kafka: KafkaSettings,
        budget: ByteBudget,
        *,
        deadline_seconds: float,
        stuck_producer_seconds: float,
        spec_of: SpecOf = event_topic,
        options: BatchOptions = _DEFAULT_OPTIONS,
    ) -> None:
        self._kafka = kafka
        self._budget = budget
        self._deadline_seconds = deadline_seconds
        self._topics = TopicManager(kafka, spec_of)
        self._second_producers = ProducerManager(self._build_second, stuck_producer_seconds)
        self._second = SecondProducer(self._second_producers.live_producer, self._topics.forget)
        self._producers = ProducerManager(self._build, stuck_producer_seconds, self._second)
        self._timer = SendTimer(self._producers, options.linger_seconds)
        self._codec = options.codec
        self._queues: dict[tuple[str, int], PartitionQueue] = {}
        self._counts: dict[str, int] = {}
        self._deadlines: deque[tuple[float, RequestSlice]] = deque()
        self._sweeper: asyncio.Task[None] | None = None
        self._health: tuple[float, Health] | None = None
        self._health_check: asyncio.Task[Health] | None = None
        self._closed = False

    async def start(self) -> None:
        """Start connecting and return at once, because Kafka may be down."""
        self._topics.start()
        self._producers.start()
        self._second_producers.start()
        self._sweeper = asyncio.create_task(self._sweep(), name="sink-sweeper")

    async def stop(self, within: float) -> None:
        """Wait at most `within` seconds for pending requests, then fail the rest."""
        self._closed = True
        awaited = [slice_.future for _, slice_ in self._deadlines if not slice_.future.done()]
        if awaited:
            await asyncio.wait(awaited, timeout=within)
        await self._timer.stop()
        await asyncio.gather(*(queue.stop() for queue in self._queues.values()))
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.wait([self._sweeper])
        if self._health_check is not None:
            self._health_check.cancel()
            await asyncio.wait([self._health_check])
        await self._topics.stop()
        await asyncio.gather(self._producers.stop(), self._second_producers.stop())

    async def health(self) -> Health:
        """Return the cluster's state; any number of probes share one request, at most two a second."""
        now = asyncio.get_running_loop().time()
        if self._health is not None and now - self._health[0] <= _HEALTH_SECONDS:
            return self._health[1]
        if self._health_check is None or self._health_check.done():
            self._health_check = asyncio.create_task(self._check_health(), name="health")
        # Shielded: a probe that disconnects does not cancel the check of other probes.
        return await asyncio.shield(self._health_check)

    async def _check_health(self) -> Health:
        health = await self._topics.health()
        self._health = (asyncio.get_running_loop().time(), health)
        return health

    async def send(self, records: Sequence[Record]) -> list[SendResult]:
        """Return one outcome per record, in order, within the deadline."""
        if self._closed:
            return [InfrastructureError(SHUTTING_DOWN, "the sink is closed") for _ in records]
        deadline = monotonic() + self._deadline_seconds  # the loop's own clock
        outcomes: list[SendResult | None] = [None] * len(records)
        await self._send(range(len(records)), records, outcomes, deadline)
        too_large = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, BatchTooLargeError)]
        if too_large and not self._closed:
            # Too large as a batch only: the topic's lowered limit is refreshed and decides about each event.
            await self._send(too_large, records, outcomes, deadline)
        return _complete(outcomes)

    async def _send(
        self,
        indexes: Iterable[int],
        records: Sequence[Record],
        outcomes: list[SendResult | None],
        deadline: float,
    ) -> None:
        slices: list[RequestSlice] = []
        for topic, of_topic in (await self._ready_topics(indexes, records, outcomes, deadline)).items():
            for partition, group in self._by_partition(topic, of_topic, records, outcomes).items():
                slices += self._queue(topic, partition).put(records, group)
        self._watch_deadline(slices, deadline)
        for slice_ in slices:
            _set_outcomes(outcomes, records, slice_, await slice_.future)

    def _watch_deadline(self, slices: list[RequestSlice], deadline: float) -> None:
        if self._deadlines and deadline < self._deadlines[-1][0]:
            # Preparing a topic took long and later requests went ahead: the sweeper checks
            # the first deadline only, so this request gets its own timer.
            for slice_ in slices:
                asyncio.get_running_loop().call_at(deadline, fail_late, {slice_}, self._deadline_seconds)
        else:
            self._deadlines.extend((deadline, slice_) for slice_ in slices)

    async def _ready_topics(
        self,
        indexes: Iterable[int],
        records: Sequence[Record],
        outcomes: list[SendResult | None],
        deadline: float,
    ) -> dict[str, list[int]]:
        """Return the records' indexes by ready topic; fail records whose topic cannot be ensured."""
        topics: dict[str, list[int]] = {}
        for index in indexes:
            topics.setdefault(records[index].topic, []).append(index)
        unready = [topic for topic in topics if self._partitions(topic) is None]
        if not unready:
            return topics
        failures = await asyncio.gather(*(self._prepare(topic, deadline) for topic in unready))
        for topic, failure in zip(unready, failures, strict=True):
            if failure is not None:
                for index in topics.pop(topic):
                    outcomes[index] = failure
        return topics

    def _partitions(self, topic: str) -> int | None:
        """Return the topic's number of partitions; None if it must be ensured first."""
        if self._topics.known(topic) is None:
            return None
        # The producer's metadata follow a growing topic; between producers the last count is used.
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
        self, topic: str, indexes: list[int], records: Sequence[Record], outcomes: list[SendResult | None]
    ) -> dict[int, list[int]]:
        partitions, limit = self._counts[topic], self._max_message_bytes(topic)
        room = limit - _RECORD_OVERHEAD
        groups: dict[int, list[int]] = {}
        for index in indexes:
            record = records[index]
            key = record.key
            if len(record.value) + len(key) > room:
                outcomes[index] = UserError(EVENT_TOO_LARGE, f"the topic takes at most {limit} bytes")
            else:
                groups.setdefault(partition_of(key, partitions), []).append(index)
        return groups

    def _max_message_bytes(self, topic: str) -> int:
        state = self._topics.known(topic)
        return _BATCH_BYTES if state is None else state.max_message_bytes

    def _queue(self, topic: str, partition: int) -> PartitionQueue:
        queue = self._queues.get((topic, partition))
        if queue is None:
            queue = PartitionQueue(
                topic,
                partition,
                timer=self._timer,
                producers=self._producers,
                budget=self._budget,
                on_stale_metadata=partial(self._topics.forget, topic),
                codec=self._codec,
            )
            self._queues[topic, partition] = queue
        queue.batch_bytes = min(_BATCH_BYTES, self._max_message_bytes(topic))
        return queue

    async def _sweep(self) -> None:
        """Fail requests whose deadline has passed, and remove batches without waiting requests."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            if self._expire(monotonic()):
                for queue in self._queues.values():
                    queue.drop_abandoned()

    def _expire(self, now: float) -> bool:
        late: set[RequestSlice] = set()
        while self._deadlines and (self._deadlines[0][1].future.done() or self._deadlines[0][0] <= now):
            _, slice_ = self._deadlines.popleft()
            if not slice_.future.done():
                late.add(slice_)
        fail_late(late, self._deadline_seconds)
        return bool(late)

    def _build_second(self) -> AIOKafkaProducer:
        return pause_metadata_requests(self._build("onramp-ingest-second", _SECOND_BACKOFF_MS))

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


def _set_outcomes(
    outcomes: list[SendResult | None], records: Sequence[Record], slice_: RequestSlice, result: BatchResult
) -> None:
    if isinstance(result, OnrampError):
        for index in slice_.indexes:
            outcomes[index] = result
        return
    known = result >= 0
    topic = records[slice_.indexes[0]].topic
    for offset, index in enumerate(slice_.indexes, result + slice_.first):
        outcomes[index] = Receipt(topic, slice_.partition, offset if known else None)


def _complete(outcomes: list[SendResult | None]) -> list[SendResult]:
    complete = [outcome for outcome in outcomes if outcome is not None]
    if len(complete) != len(outcomes):
        raise AssertionError(f"{len(outcomes) - len(complete)} records have no outcome")
    return complete
