"""Retries batches that a partition rejects for now by a second producer, so that they block no others.

aiokafka sends one produce request at a time to each broker, retries a rejected batch forever and
pauses before a retry inside that request: one partition below its min ISR would
block all others of its broker. So a rejected batch moves, with the producer id and the sequence
number that it has: for Kafka it is a retry of the same batch, which is appended once. So does a batch
whose partition lost its leader before it was sent: aiokafka would request the leader without a pause.
While a batch is here its partition's queue sends nothing else. When Kafka has it, the queue's next
batch goes through the first producer again.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Final

import aiokafka.producer.sender
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from aiokafka.producer.sender import SendProduceReqHandler
from aiokafka.structs import TopicPartition

from services.ingest.observe.metrics import KAFKA_REQUESTS_TALLY

logger = logging.getLogger(__name__)

#: The attribute of a first producer's sender that holds its second producer.
_SECOND: Final = "onramp_second"
#: A recreated topic is not known to every broker at once.
_GONE_SECONDS: Final = 30.0
#: aiokafka repeats metadata requests as soon as the last answer arrives.
METADATA_PAUSE_SECONDS: Final = 0.1
#: The leader of a partition without one; for a missing partition it is None.
NO_LEADER: Final = -1


class MayBeAppendedError(KafkaError):  # type: ignore[misc]
    """A batch was rejected permanently after an earlier attempt with an unknown answer."""


class TopicGone:
    """Decides whether a batch's partition has been unknown for so long that its topic must be deleted."""

    def __init__(self, clock: Callable[[], float], leader: Callable[[], int | None]) -> None:
        self._clock = clock
        self._leader = leader
        self._since: float | None = None

    def __call__(self) -> bool:
        """Return whether to fail the batch; aiokafka calls it while the partition has no leader."""
        if self._leader() == NO_LEADER:  # a leader may be elected hours later; giving up leaves a hole
            self._since = None
            return False
        if self._since is None:
            self._since = self._clock()
        return self._clock() - self._since > _GONE_SECONDS


class SecondProducer:
    """Resends batches that a partition rejected, by a separate producer, until Kafka has them."""

    def __init__(
        self, producer: Callable[[], AIOKafkaProducer | None], forget: Callable[[str], None]
    ) -> None:
        self._producer = producer
        self._forget = forget
        self._moved: set[TopicPartition] = set()

    def attach(self, first: AIOKafkaProducer) -> None:
        """Resend batches of `first` that partitions reject or that have no leader, from now on."""
        setattr(first._sender, _SECOND, self)  # noqa: SLF001
        accumulator = first._message_accumulator  # noqa: SLF001
        drain = accumulator.drain_by_nodes

        def drain_led(ignore_nodes: Any, muted_partitions: Any = frozenset()) -> Any:
            self._move_leaderless(accumulator, muted_partitions)
            return drain(ignore_nodes, muted_partitions)

        accumulator.drain_by_nodes = drain_led

    def holds(self, topic: str, partition: int) -> bool:
        """Return whether this producer has a batch of the partition."""
        return TopicPartition(topic, partition) in self._moved

    def on_slow_batch(self, topic: str) -> None:
        """Request a check of the topic before its next use, and its creation if it was deleted."""
        self._forget(topic)

    def resend(self, batch: Any) -> bool:
        """Send the batch again unchanged; return False if there is no producer for it now."""
        producer = self._producer()
        if producer is None:
            return False
        logger.info(
            "partition rejected a batch; retrying by another producer", extra={"topic": batch.tp.topic}
        )
        self._moved.add(batch.tp)
        batch.future.add_done_callback(partial(self._done, producer, batch))
        # Called while there is no leader: a batch that fails leaves a hole in its sequence.
        leader = partial(producer.client.cluster.leader_for_partition, batch.tp)
        batch.expired = TopicGone(asyncio.get_running_loop().time, leader)
        batch.reset_drain()
        accumulator = producer._message_accumulator  # noqa: SLF001
        accumulator._batches[batch.tp].append(batch)  # noqa: SLF001
        accumulator._wakeup(accumulator.waiter())  # noqa: SLF001
        producer.client.add_topic(batch.tp.topic)
        return True

    def _move_leaderless(self, accumulator: Any, muted: Collection[TopicPartition]) -> None:
        for tp in [*accumulator._batches]:  # noqa: SLF001
            if tp in muted or accumulator._cluster.leader_for_partition(tp) not in (None, NO_LEADER):  # noqa: SLF001
                continue
            # Treated as sent now: it gets the first producer's next sequence number.
            batch = accumulator._pop_batch(tp)  # noqa: SLF001
            if self.resend(batch):
                accumulator._pending_batches.remove(batch)  # noqa: SLF001
            else:
                accumulator.reenqueue(batch)

    def _done(self, producer: AIOKafkaProducer, batch: Any, _: object) -> None:
        self._moved.discard(batch.tp)
        producer._message_accumulator._pending_batches.discard(batch)  # noqa: SLF001


class _MovingHandler(SendProduceReqHandler):  # type: ignore[misc]
    """Moves batches that partitions rejected; batches that failed with the connection stay."""

    def create_request(self) -> Any:
        KAFKA_REQUESTS_TALLY.add()
        return super().create_request()

    def handle_response(self, response: Any) -> None:
        super().handle_response(response)
        second: SecondProducer | None = getattr(self._sender, _SECOND, None)
        if second is not None:
            self._to_reenqueue[:] = [batch for batch in self._to_reenqueue if not self._move(batch, second)]

    def _can_retry(self, error: Exception, batch: Any) -> bool:
        can_retry: bool = super()._can_retry(error, batch)
        if not can_retry and batch.retry_count > 1:
            # Kafka checks a batch's size before it checks whether it has the batch already.
            batch.failure(MayBeAppendedError(type(error).__name__))
        return can_retry

    def _move(self, batch: Any, second: SecondProducer) -> bool:
        moved = second.resend(batch)
        if moved:
            self._sender._message_accumulator._pending_batches.remove(batch)  # noqa: SLF001
        return moved


class _Pending(set[Any]):
    """The batches that a producer waits for; a moved batch is removed before it is done."""

    remove = set.discard


def make_movable(producer: AIOKafkaProducer) -> AIOKafkaProducer:
    """Allow batches to move from this producer or to it; return the same producer."""
    producer._message_accumulator._pending_batches = _Pending()  # noqa: SLF001
    return producer


def pause_metadata_requests(producer: AIOKafkaProducer) -> AIOKafkaProducer:
    """Pause before each of the producer's metadata requests; return the same producer."""
    update = producer.client._metadata_update  # noqa: SLF001

    async def paused_update(*args: Any) -> Any:
        await asyncio.sleep(METADATA_PAUSE_SECONDS)
        return await update(*args)

    producer.client._metadata_update = paused_update  # noqa: SLF001
    return producer


aiokafka.producer.sender.SendProduceReqHandler = _MovingHandler
