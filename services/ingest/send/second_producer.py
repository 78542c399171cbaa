"""What a partition refuses for now goes over a second producer, where its retries hold up nobody.

aiokafka has one produce request at a time with each broker, retries a refused batch for ever and
waits out the pause before a retry inside of that request: one partition below its min ISR would
hold up all others of its broker.  So a refused batch moves, with the producer id and the sequence
number that it has: to Kafka it is the same try again, and it lands once.  So does one whose
partition lost its leader before it was sent: aiokafka would ask for the leader without a pause.
While it is here its lane sends nothing else; when Kafka has taken it, the lane's next flight goes
over the first producer as ever.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Final

import aiokafka.producer.sender
from aiokafka import AIOKafkaProducer
from aiokafka.producer.sender import SendProduceReqHandler
from aiokafka.structs import TopicPartition

from services.ingest.observe.metrics import KAFKA_REQUESTS_SEEN

logger = logging.getLogger(__name__)

#: Where a first producer's sender is told of its second one.
_SECOND: Final = "onramp_second"
#: One that was just made again is not known to every broker.
_GONE_SECONDS: Final = 30.0
#: aiokafka asks for a leader as fast as it is answered.
ASK_SECONDS: Final = 0.1
#: The leader of a partition that has none; of one that does not exist it is None.
NOBODY: Final = -1


class Gone:
    """Whether a batch's partition has been unknown for so long that its topic must be gone."""

    def __init__(self, clock: Callable[[], float], leader: Callable[[], int | None]) -> None:
        self._clock = clock
        self._leader = leader
        self._since: float | None = None

    def __call__(self) -> bool:
        """Asked each time that the batch has no leader to go to."""
        if self._leader() == NOBODY:  # it may be elected hours later; giving up leaves a hole
            self._since = None
            return False
        if self._since is None:
            self._since = self._clock()
        return self._clock() - self._since > _GONE_SECONDS


class SecondProducer:
    """Batches that a partition refused, sent again by a producer of their own until it takes them."""

    def __init__(
        self, producer: Callable[[], AIOKafkaProducer | None], forget: Callable[[str], None]
    ) -> None:
        self._producer = producer
        self._forget = forget
        self._held: set[TopicPartition] = set()

    def serve(self, first: AIOKafkaProducer) -> None:
        """From now on take what partitions refuse to this producer, and what has no leader."""
        setattr(first._sender, _SECOND, self)  # noqa: SLF001
        accumulator = first._message_accumulator  # noqa: SLF001
        drain = accumulator.drain_by_nodes

        def drain_led(ignore_nodes: Any, muted_partitions: Any = frozenset()) -> Any:
            self._take_leaderless(accumulator, muted_partitions)
            return drain(ignore_nodes, muted_partitions)

        accumulator.drain_by_nodes = drain_led

    def holds(self, topic: str, partition: int) -> bool:
        """Whether a batch of the partition is here."""
        return TopicPartition(topic, partition) in self._held

    def still(self, topic: str) -> None:
        """It takes long: the topic may have been deleted, and is made again before its next use."""
        self._forget(topic)

    def take(self, batch: Any) -> bool:
        """Send the batch again as it is; False when there is no producer for it now."""
        producer = self._producer()
        if producer is None:
            return False
        logger.info("a partition refuses for now", extra={"topic": batch.tp.topic})
        self._held.add(batch.tp)
        batch.future.add_done_callback(partial(self._done, producer, batch))
        # Asked while there is no leader: a batch that fails leaves a hole in its sequence.
        leader = partial(producer.client.cluster.leader_for_partition, batch.tp)
        batch.expired = Gone(asyncio.get_running_loop().time, leader)
        batch.reset_drain()
        accumulator = producer._message_accumulator  # noqa: SLF001
        accumulator._batches[batch.tp].append(batch)  # noqa: SLF001
        accumulator._wakeup(accumulator.waiter())  # noqa: SLF001
        producer.client.add_topic(batch.tp.topic)
        return True

    def _take_leaderless(self, accumulator: Any, muted: Collection[TopicPartition]) -> None:
        for tp in [*accumulator._batches]:  # noqa: SLF001
            if tp in muted or accumulator._cluster.leader_for_partition(tp) not in (None, NOBODY):  # noqa: SLF001
                continue
            # As if it was to be sent now: it gets the first producer's next sequence number.
            batch = accumulator._pop_batch(tp)  # noqa: SLF001
            if self.take(batch):
                accumulator._pending_batches.remove(batch)  # noqa: SLF001
            else:
                accumulator.reenqueue(batch)

    def _done(self, producer: AIOKafkaProducer, batch: Any, _: object) -> None:
        self._held.discard(batch.tp)
        producer._message_accumulator._pending_batches.discard(batch)  # noqa: SLF001


class _Refusals(SendProduceReqHandler):  # type: ignore[misc]
    """Hands on what partitions refused; what failed on the way stays, because the way is everybody's."""

    def create_request(self) -> Any:
        KAFKA_REQUESTS_SEEN.add()
        return super().create_request()

    def handle_response(self, response: Any) -> None:
        super().handle_response(response)
        second: SecondProducer | None = getattr(self._sender, _SECOND, None)
        if second is not None:
            self._to_reenqueue[:] = [batch for batch in self._to_reenqueue if not self._moves(batch, second)]

    def _moves(self, batch: Any, second: SecondProducer) -> bool:
        moves = second.take(batch)
        if moves:
            self._sender._message_accumulator._pending_batches.remove(batch)  # noqa: SLF001
        return moves


class _Pending(set[Any]):
    """What a producer waits for; one that moved was removed before it is done."""

    remove = set.discard


def ready_to_move(producer: AIOKafkaProducer) -> AIOKafkaProducer:
    """Let batches of the producer be moved, or moved to it."""
    producer._message_accumulator._pending_batches = _Pending()  # noqa: SLF001
    return producer


def asking_slowly(producer: AIOKafkaProducer) -> AIOKafkaProducer:
    """Pause before each of the producer's questions for metadata."""
    ask = producer.client._metadata_update  # noqa: SLF001

    async def asked(*given: Any) -> Any:
        await asyncio.sleep(ASK_SECONDS)
        return await ask(*given)

    producer.client._metadata_update = asked  # noqa: SLF001
    return producer


aiokafka.producer.sender.SendProduceReqHandler = _Refusals
