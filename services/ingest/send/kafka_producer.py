"""Producers that cannot block the gateway: built, watched, replaced and stopped within time limits.

aiokafka 0.14 with idempotence retries a batch forever, hangs in `stop()` while Kafka is
down (its issue 1101), stays broken after an out-of-order sequence (1017) and fails every
send after its sender task died.  So: after any failed or overdue batch the producer is
replaced by a new one with a new producer id; the old one finishes what it has in flight,
within time limits, and is closed by force if necessary.
"""

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import aiokafka.client
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, ProducerClosed
from aiokafka.structs import TopicPartition

from services.ingest.observe.metrics import PRODUCERS_REPLACED
from services.ingest.send.second_producer import (
    METADATA_PAUSE_SECONDS,
    NO_LEADER,
    SecondProducer,
    make_movable,
)
from shared.backoff import Backoff
from shared.errors import KAFKA_UNAVAILABLE, KAFKA_UNREACHABLE, InfrastructureError

logger = logging.getLogger(__name__)

_START_SECONDS = 10.0
#: Maximum pause before a retry: events are rejected meanwhile.
_MAX_PAUSE_SECONDS = 1.0
_CLOSE_SECONDS = 1.5

# Its metadata requests ask the broker to create missing topics. Topics are created
# by kafka_topics.py with explicit settings, never by a broker's defaults.
aiokafka.client.MetadataRequest = partial(aiokafka.client.MetadataRequest, allow_auto_topic_creation=False)

Build = Callable[[], AIOKafkaProducer]


class ProducerInstance:
    """An aiokafka producer, with its number of batches in flight."""

    def __init__(
        self, producer: AIOKafkaProducer, stuck_producer_seconds: float, second: SecondProducer | None = None
    ) -> None:
        self.producer = producer
        self._second = second
        self.in_flight = 0
        self.idle = asyncio.Event()
        self.idle.set()
        self._stuck_seconds = stuck_producer_seconds
        self._refreshed_at = -math.inf

    def leaderless(self, topic: str, partition: int) -> bool:
        """Return whether the partition has no leader by the producer's metadata."""
        leader = self.producer.client.cluster.leader_for_partition(TopicPartition(topic, partition))
        return bool(leader == NO_LEADER)

    def refresh_metadata(self) -> None:
        """Request metadata soon, at most every `METADATA_PAUSE_SECONDS` for all partitions."""
        now = asyncio.get_running_loop().time()
        if now - self._refreshed_at >= METADATA_PAUSE_SECONDS:
            self._refreshed_at = now
            self.producer.client.force_metadata_update()

    def take_back(self, topic: str, partition: int, count: int) -> None:
        """Reuse the last batch's `count` sequence numbers: the broker rejected it permanently."""
        manager = self.producer._txn_manager  # noqa: SLF001
        manager.increment_sequence_number(TopicPartition(topic, partition), -count)

    async def send(self, batch: Any, topic: str, partition: int) -> int:
        """Produce a batch and return its base offset, -1 if the broker no longer knows it.

        Raises:
            InfrastructureError: KAFKA_UNREACHABLE if the batch was certainly not sent.
            TimeoutError: no answer in time; the batch may or may not be on Kafka.
            KafkaError: the broker rejected the batch.
        """
        self.in_flight += 1
        self.idle.clear()
        try:
            async with asyncio.timeout(self._stuck_seconds):
                try:
                    acknowledged = await self.producer.send_batch(batch, topic, partition=partition)
                except (KafkaError, AssertionError) as e:  # a deleted partition raises an assertion
                    raise InfrastructureError(KAFKA_UNREACHABLE, type(e).__name__) from e
            return int((await self._acknowledgement(acknowledged, topic, partition)).offset)
        finally:
            self.in_flight -= 1
            if not self.in_flight:
                self.idle.set()

    async def _acknowledgement(self, acknowledged: "asyncio.Future[Any]", topic: str, partition: int) -> Any:
        """Wait at most `stuck_producer_seconds`, or without limit while the second producer has the batch."""
        try:
            while True:
                done, _ = await asyncio.wait([acknowledged], timeout=self._stuck_seconds)
                if done:
                    return acknowledged.result()
                if self._second is None or not self._second.holds(topic, partition):
                    raise TimeoutError
                self._second.on_slow_batch(topic)
        finally:
            acknowledged.cancel()  # not the batch; otherwise asyncio warns of an unretrieved exception


class ProducerManager:
    """Maintains one working producer: builds it, replaces it after a failure, and closes the old one."""

    def __init__(
        self, build: Build, stuck_producer_seconds: float, second: SecondProducer | None = None
    ) -> None:
        self._build = build
        self._stuck_seconds = stuck_producer_seconds
        self._second = second
        self._current: ProducerInstance | None = None
        self._ready = asyncio.Event()
        self._needed = asyncio.Event()
        self._maintainer: asyncio.Task[None] | None = None
        self._retiring: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Start building a producer and return at once, because Kafka may be down."""
        self._needed.set()
        self._maintainer = asyncio.create_task(self._maintain(), name="producer-maintainer")

    @property
    def ready(self) -> bool:
        """Return whether there is a producer that has not failed."""
        return self._current is not None

    @property
    def instance(self) -> ProducerInstance | None:
        """Return the current producer; None if there is none."""
        return self._current

    async def current(self) -> ProducerInstance:
        """Return the current producer; wait while there is none."""
        while self._current is None:
            await self._ready.wait()
        return self._current

    def live_producer(self) -> AIOKafkaProducer | None:
        """Return aiokafka's producer, or None if there is none; replace one whose sender task died."""
        if self._current is not None and self._current.producer._sender.sender_task.done():  # noqa: SLF001
            self.replace(self._current, "the sender task ended")
        return None if self._current is None else self._current.producer

    def partitions(self, topic: str) -> int | None:
        """Return the topic's number of partitions in the producer's metadata; None if it is not in them."""
        if self._current is None:
            return None
        known = self._current.producer.client.cluster.partitions_for_topic(topic)
        return len(known) if known else None

    async def count_partitions(self, topic: str) -> int:
        """Request the topic's number of partitions; wait for a producer, and until a new topic is visible.

        Raises:
            InfrastructureError: KAFKA_UNREACHABLE, without metadata from the broker.
        """
        instance = await self.current()
        try:
            return len(await instance.producer.partitions_for(topic))
        except KafkaError as e:
            raise InfrastructureError(KAFKA_UNREACHABLE, f"no metadata: {type(e).__name__}") from e

    def replace(self, failed: ProducerInstance, reason: str) -> None:
        """Use a new producer from now on; the old one may finish its batches in flight."""
        if self._current is not failed:
            return
        logger.warning("replacing the producer", extra={"reason": reason})
        PRODUCERS_REPLACED.inc()
        self._current = None
        self._ready.clear()
        self._retire(failed)
        self._needed.set()

    async def stop(self) -> None:
        """Close all producers, each within `stuck_producer_seconds` and the time of closing by force."""
        if self._maintainer is not None:
            self._maintainer.cancel()
            await asyncio.wait([self._maintainer])
        if self._current is not None:
            self._retire(self._current)
            self._current = None
        if self._retiring:
            await asyncio.wait(self._retiring)

    def _retire(self, instance: ProducerInstance) -> None:
        task = asyncio.create_task(self._close_when_idle(instance))
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    async def _close_when_idle(self, instance: ProducerInstance) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._stuck_seconds):
                await instance.idle.wait()
        await close(instance.producer)

    async def _maintain(self) -> None:
        backoff = Backoff(_MAX_PAUSE_SECONDS)
        while True:
            await self._needed.wait()
            producer = await self._build_started()
            if producer is not None:
                self._needed.clear()
                self._current = ProducerInstance(producer, self._stuck_seconds, self._second)
                self._ready.set()
                backoff.succeed()
            else:
                await asyncio.sleep(backoff.fail())

    async def _build_started(self) -> AIOKafkaProducer | None:
        producer = make_movable(self._build())
        try:
            async with asyncio.timeout(_START_SECONDS):
                await producer.start()
        except asyncio.CancelledError:
            await close(producer)
            raise
        except Exception as e:  # noqa: BLE001 - the task must continue, whatever aiokafka raises
            logger.warning("Kafka is unreachable", extra={"reason": repr(e)})
            await close(producer)
            return None
        if self._second is not None:
            self._second.attach(producer)
        return producer


async def close(producer: AIOKafkaProducer) -> None:
    """Stop a producer; by force after `_CLOSE_SECONDS`."""
    stopping = asyncio.ensure_future(producer.stop())
    done, _ = await asyncio.wait([stopping], timeout=_CLOSE_SECONDS)
    if not done:
        # Failing the futures that stop() waits for lets it return by itself.
        _fail_all(producer)
        producer._sender.sender_task.cancel()  # noqa: SLF001
        await producer.client.close()
        done, _ = await asyncio.wait([stopping], timeout=_CLOSE_SECONDS)
    if not done:
        stopping.cancel()
        done, _ = await asyncio.wait([stopping])
    if not stopping.cancelled() and stopping.exception() is not None:
        logger.info("producer was closed by force", extra={"reason": repr(stopping.exception())})


def _fail_all(producer: AIOKafkaProducer) -> None:
    """Fail every batch of the producer by private parts: aiokafka has no public way."""
    accumulator = producer._message_accumulator  # noqa: SLF001
    queued = [batch for batches in accumulator._batches.values() for batch in batches]  # noqa: SLF001
    held = [*queued, *accumulator._pending_batches]  # noqa: SLF001
    accumulator.fail_all(ProducerClosed())
    for batch in held:
        if not batch.future.cancelled():
            batch.future.exception()  # retrieved, or asyncio would warn: the request has ended


def unknown_outcome(reason: str) -> InfrastructureError:
    """Return the error of a batch that may be on Kafka."""
    return InfrastructureError(KAFKA_UNAVAILABLE, reason)
