"""Producers that cannot wedge the gateway: built, watched, replaced and stopped within bounds.

aiokafka 0.14 with idempotence retries a batch for ever, hangs in `stop()` while Kafka is
down (its issue 1101), stays broken after an out-of-order sequence (1017) and fails every
send after its sender task died.  So: after any failed or overdue batch the producer is
replaced by a new one with a new producer id; the old one finishes what it has in flight,
within bounds, and is closed by force if it must be.
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

from services.ingest.send.second_producer import ASK_SECONDS, NOBODY, SecondProducer, ready_to_move
from shared.errors import KAFKA_UNAVAILABLE, KAFKA_UNREACHABLE, InfrastructureError

logger = logging.getLogger(__name__)

_START_SECONDS = 10.0
_BACKOFF_SECONDS = 0.5
_CLOSE_SECONDS = 1.5

# Its metadata requests ask the broker to create topics that are missing.  Topics are made
# by kafka_topics.py with explicit settings, never by a broker's defaults.
aiokafka.client.MetadataRequest = partial(aiokafka.client.MetadataRequest, allow_auto_topic_creation=False)

Build = Callable[[], AIOKafkaProducer]


class ProducerInstance:
    """One producer and what it has in flight."""

    def __init__(
        self, producer: AIOKafkaProducer, wedged_seconds: float, second: SecondProducer | None = None
    ) -> None:
        self.producer = producer
        self._second = second
        self.in_flight = 0
        self.idle = asyncio.Event()
        self.idle.set()
        self._wedged_seconds = wedged_seconds
        self._asked = -math.inf

    def leaderless(self, topic: str, partition: int) -> bool:
        """Whether the partition is known to have no leader."""
        leader = self.producer.client.cluster.leader_for_partition(TopicPartition(topic, partition))
        return bool(leader == NOBODY)

    def ask(self) -> None:
        """Have leaders looked up soon: one question with a pause, however many wait for leaders."""
        now = asyncio.get_running_loop().time()
        if now - self._asked >= ASK_SECONDS:
            self._asked = now
            self.producer.client.force_metadata_update()

    async def send(self, batch: Any, topic: str, partition: int) -> int:
        """Produce a batch and return its base offset, -1 if the broker no longer knows it.

        Raises:
            InfrastructureError: KAFKA_UNREACHABLE when the batch was surely not sent.
            TimeoutError: no answer in time; the batch may or may not be on Kafka.
            KafkaError: the broker refused the batch.
        """
        self.in_flight += 1
        self.idle.clear()
        try:
            async with asyncio.timeout(self._wedged_seconds):
                try:
                    acknowledged = await self.producer.send_batch(batch, topic, partition=partition)
                except (KafkaError, AssertionError) as e:  # a partition that is gone is an assertion
                    raise InfrastructureError(KAFKA_UNREACHABLE, type(e).__name__) from e
            return int((await self._answer(acknowledged, topic, partition)).offset)
        finally:
            self.in_flight -= 1
            if not self.in_flight:
                self.idle.set()

    async def _answer(self, acknowledged: "asyncio.Future[Any]", topic: str, partition: int) -> Any:
        """Wait for it as long as the producer may take; for a partition that refuses, without an end."""
        try:
            while True:
                done, _ = await asyncio.wait([acknowledged], timeout=self._wedged_seconds)
                if done:
                    return acknowledged.result()
                if self._second is None or not self._second.holds(topic, partition):
                    raise TimeoutError
                self._second.still(topic)
        finally:
            acknowledged.cancel()  # not the batch: nobody else would look at how it fails


class ProducerManager:
    """Keeps one working producer; `current` waits for it, `replace` retires it."""

    def __init__(self, build: Build, wedged_seconds: float, second: SecondProducer | None = None) -> None:
        self._build = build
        self._wedged_seconds = wedged_seconds
        self._second = second
        self._current: ProducerInstance | None = None
        self._ready = asyncio.Event()
        self._wanted = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._retiring: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin to keep a producer; returns at once, Kafka may be down."""
        self._wanted.set()
        self._keeper = asyncio.create_task(self._keep(), name="producer-keeper")

    @property
    def ready(self) -> bool:
        """Whether there is a producer that has not failed."""
        return self._current is not None

    @property
    def generation(self) -> ProducerInstance | None:
        """The producer to use now, if there is one."""
        return self._current

    async def current(self) -> ProducerInstance:
        """The producer to use now; waits while there is none."""
        while self._current is None:
            await self._ready.wait()
        return self._current

    def now(self) -> AIOKafkaProducer | None:
        """The producer, None while there is none; one whose sender died is replaced."""
        if self._current is not None and self._current.producer._sender.sender_task.done():  # noqa: SLF001
            self.replace(self._current, "its sender died")
        return None if self._current is None else self._current.producer

    def partitions(self, topic: str) -> int | None:
        """How many partitions the current producer knows of the topic."""
        if self._current is None:
            return None
        known = self._current.producer.client.cluster.partitions_for_topic(topic)
        return len(known) if known else None

    async def count_partitions(self, topic: str) -> int:
        """Ask for the topic's partitions; waits for a producer, and for a new topic to be seen.

        Raises:
            InfrastructureError: the broker does not say.
        """
        generation = await self.current()
        try:
            return len(await generation.producer.partitions_for(topic))
        except KafkaError as e:
            raise InfrastructureError(KAFKA_UNREACHABLE, f"no metadata: {type(e).__name__}") from e

    def replace(self, failed: ProducerInstance, why: str) -> None:
        """Use a new producer from now on; the old one may finish what it has in flight."""
        if self._current is not failed:
            return
        logger.warning("producer is replaced", extra={"reason": why})
        self._current = None
        self._ready.clear()
        self._retire(failed)
        self._wanted.set()

    async def stop(self) -> None:
        """Close all producers, each within bounds."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        if self._current is not None:
            self._retire(self._current)
            self._current = None
        if self._retiring:
            await asyncio.wait(self._retiring)

    def _retire(self, generation: ProducerInstance) -> None:
        task = asyncio.create_task(self._finish(generation))
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    async def _finish(self, generation: ProducerInstance) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._wedged_seconds):
                await generation.idle.wait()
        await close(generation.producer)

    async def _keep(self) -> None:
        while True:
            await self._wanted.wait()
            producer = await self._started()
            if producer is not None:
                self._wanted.clear()
                self._current = ProducerInstance(producer, self._wedged_seconds, self._second)
                self._ready.set()
            else:
                await asyncio.sleep(_BACKOFF_SECONDS)

    async def _started(self) -> AIOKafkaProducer | None:
        producer = ready_to_move(self._build())
        try:
            async with asyncio.timeout(_START_SECONDS):
                await producer.start()
        except asyncio.CancelledError:
            await close(producer)
            raise
        except Exception as e:  # noqa: BLE001 - the keeper must live on, whatever aiokafka raises
            logger.warning("Kafka cannot be reached", extra={"reason": repr(e)})
            await close(producer)
            return None
        if self._second is not None:
            self._second.serve(producer)
        return producer


async def close(producer: AIOKafkaProducer) -> None:
    """Stop a producer; by force when it does not stop in time."""
    stopping = asyncio.ensure_future(producer.stop())
    done, _ = await asyncio.wait([stopping], timeout=_CLOSE_SECONDS)
    if not done:
        # What stop() waits for is failed under its hands: it then closes by itself.
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
    """Fail every batch that the producer holds; there is no public way."""
    accumulator = producer._message_accumulator  # noqa: SLF001
    queued = [batch for batches in accumulator._batches.values() for batch in batches]  # noqa: SLF001
    held = [*queued, *accumulator._pending_batches]  # noqa: SLF001
    accumulator.fail_all(ProducerClosed())
    for batch in held:
        if not batch.future.cancelled():
            batch.future.exception()  # whoever waited has left: nobody else looks at it


def unknown(reason: str) -> InfrastructureError:
    """The failure of a batch that may be on Kafka."""
    return InfrastructureError(KAFKA_UNAVAILABLE, reason)
