"""A queue per partition: events of many requests go to Kafka in one batch at a time.

One batch in flight per partition preserves order whatever happens to the producer. Events that
arrive until the next send (`send_timer.py`) fill the next batch: a higher load needs relatively fewer
produce requests.  A request holds one future per batch that carries events of it, never one
per event.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from aiokafka.errors import MessageSizeTooLargeError, RecordListTooLargeError
from aiokafka.producer.message_accumulator import BatchBuilder

from services.ingest.observe.metrics import SEND_SECONDS_TALLY
from services.ingest.send.byte_budget import ByteBudget
from services.ingest.send.kafka_producer import ProducerInstance, ProducerManager, unknown_outcome
from services.ingest.send.second_producer import METADATA_PAUSE_SECONDS
from services.ingest.send.send_timer import SendTimer
from services.ingest.sink import Record
from shared.errors import (
    EVENT_TOO_LARGE,
    KAFKA_UNAVAILABLE,
    SHUTTING_DOWN,
    InfrastructureError,
    OnrampError,
    UserError,
)

logger = logging.getLogger(__name__)

#: Estimated bytes of a record in addition to key and value, headers included, for the budget.
_OVERHEAD: Final = 150

_TOO_LARGE: Final = (MessageSizeTooLargeError, RecordListTooLargeError)

#: Codec numbers of record batches.
_CODECS: Final = {"none": 0, "gzip": 1, "lz4": 3, "zstd": 4}


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """How often batches are sent, in seconds, and how they are compressed."""

    linger_seconds: float = 0.0
    compression: Literal["none", "gzip", "lz4", "zstd"] = "none"

    @property
    def codec(self) -> int:
        """Return the codec's number in the attributes of a record batch."""
        return _CODECS[self.compression]


#: A batch's base offset, or its error.
BatchResult = int | OnrampError
Outcome = asyncio.Future[BatchResult]


class BatchTooLargeError(InfrastructureError):
    """A batch of several events is larger than the topic's current limit; smaller batches may fit."""


class RequestSlice:
    """The events of one request that are sent in one batch.

    `indexes` are their positions in the request; `first` is the position of the first in the batch.
    """

    __slots__ = ("batch", "first", "future", "indexes", "partition")

    def __init__(self, batch: "InFlightBatch", partition: int, indexes: list[int], future: Outcome) -> None:
        self.indexes = indexes
        #: None once there is a result: a request that waits for other batches must not keep these bytes.
        self.batch: InFlightBatch | None = batch
        self.first = batch.count
        self.partition = partition
        self.future = future


class InFlightBatch:
    """A batch that is being filled or was passed to a producer."""

    __slots__ = ("builder", "count", "has_waited", "is_sent", "size", "slices")

    def __init__(self, batch_bytes: int, codec: int = 0) -> None:
        # Not a producer's create_batch(): a batch may outlive its producer.
        self.builder = BatchBuilder(batch_bytes, codec)
        self.slices: list[RequestSlice] = []
        self.count = 0
        self.size = 0
        #: Whether a producer has it: its outcome is then unknown until Kafka answers.
        self.is_sent = False
        #: Whether it was waiting at an earlier call of `PartitionQueue.seal`.
        self.has_waited = False

    @property
    def abandoned(self) -> bool:
        """Return whether no request waits for it any more."""
        return all(slice_.future.done() for slice_ in self.slices)

    def resolve(self, result: BatchResult) -> None:
        """Pass `result` to every waiting request, and release the batch from all."""
        for slice_ in self.slices:
            if not slice_.future.done():
                slice_.future.set_result(result)
            slice_.batch = None


class PartitionQueue:
    """The batches of a topic's partition: at most one is with a producer, the others wait."""

    def __init__(
        self,
        topic: str,
        partition: int,
        *,
        timer: SendTimer,
        producers: ProducerManager,
        budget: ByteBudget,
        on_stale_metadata: Callable[[], None],
        codec: int,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.batch_bytes = 0
        self._codec = codec
        # Stored: getting the running loop makes a system call.
        self._loop = asyncio.get_running_loop()
        self._timer = timer
        self._producers = producers
        self._budget = budget
        self._on_stale_metadata = on_stale_metadata
        self._waiting: deque[InFlightBatch] = deque()
        self._sending: asyncio.Task[None] | None = None

    def put(self, records: Sequence[Record], indexes: list[int]) -> list[RequestSlice]:
        """Add the records at `indexes`, in order; return the slices to wait for."""
        batch = self._waiting[-1] if self._waiting else self._new_batch()
        if batch.slices and batch.slices[-1].future.done() and batch.abandoned:
            batch = self._new_batch()  # its requests have the answer that the batch is certainly not on Kafka
        slices: list[RequestSlice] = []
        while indexes:
            added = self._fill(batch, records, indexes)
            if added:
                slice_ = RequestSlice(batch, self.partition, indexes[:added], self._loop.create_future())
                batch.slices.append(slice_)
                batch.count += added
                slices.append(slice_)
                indexes = indexes[added:]
            if indexes:
                batch = self._new_batch()  # empty, so it accepts a record of any size
        if self._sending is None:
            self._schedule()
        return slices

    def send_next(self, instance: ProducerInstance) -> None:
        """Start sending the oldest batch; events are added until a producer has it."""
        self._sending = self._loop.create_task(self._send_oldest(instance))

    def _fill(self, batch: InFlightBatch, records: Sequence[Record], indexes: list[int]) -> int:
        """Add as many records as fit; return their number."""
        append = batch.builder.append
        added = size = 0
        for index in indexes:
            record = records[index]
            key, value = record.key, record.value
            if append(timestamp=None, key=key, value=value, headers=record.headers) is None:
                break
            added += 1
            size += len(key) + len(value)
        size += added * _OVERHEAD
        batch.size += size
        self._budget.add(size)
        return added

    def drop_abandoned(self) -> None:
        """Remove waiting batches whose requests were all answered, and release their bytes."""
        for batch in [each for each in self._waiting if each.abandoned]:
            self._waiting.remove(batch)
            self._budget.release(batch.size)

    def seal(self) -> None:
        """Close the newest batch to further events if it was already waiting at the last call.

        Events that arrived at about the same time then also expire together. Only while there is no
        leader: with a slow leader, larger batches are needed to keep up.
        """
        if self._waiting:
            batch = self._waiting[-1]
            if batch.has_waited:
                batch.builder.close()
            batch.has_waited = True

    async def stop(self) -> None:
        """Fail waiting batches and the batch in flight."""
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.wait([self._sending])
        self._fail_waiting(InfrastructureError(SHUTTING_DOWN, "the gateway stopped before it was sent"))

    def _fail_waiting(self, error: OnrampError) -> None:
        while self._waiting:
            batch = self._waiting.popleft()
            batch.resolve(error)
            self._budget.release(batch.size)

    def _new_batch(self) -> InFlightBatch:
        batch = InFlightBatch(self.batch_bytes, self._codec)
        self._waiting.append(batch)
        return batch

    def _schedule(self) -> None:
        """Schedule the oldest batch for the next send; a full batch does not wait."""
        self._timer.schedule(self, full=len(self._waiting) > 1)

    async def _send_oldest(self, instance: ProducerInstance) -> None:
        try:
            instance = await self._wait_for_leader(instance)
            if self._waiting:
                await self._send(self._waiting.popleft(), instance)
        finally:
            self._sending = None
            if self._waiting:
                self._schedule()

    async def _wait_for_leader(self, instance: ProducerInstance) -> ProducerInstance:
        """Wait until the partition has a leader or no request waits any more; return the producer to use."""
        self.drop_abandoned()
        while self._waiting and instance.leaderless(self.topic, self.partition):
            # Here, where the batch is certainly not on Kafka, and not in the producer shared by all topics.
            instance.refresh_metadata()
            await asyncio.sleep(METADATA_PAUSE_SECONDS)
            self.seal()
            instance = await self._producers.current()
            self.drop_abandoned()
        return instance

    async def _send(self, batch: InFlightBatch, instance: ProducerInstance) -> None:
        started = time.perf_counter()
        try:
            batch.is_sent = True
            batch.resolve(await instance.send(batch.builder, self.topic, self.partition))
        except asyncio.CancelledError:
            batch.resolve(unknown_outcome("the gateway stopped before Kafka answered"))
            raise
        except _TOO_LARGE as e:
            # The topic's limit was lowered: refresh it. Other topics are not affected.
            self._on_stale_metadata()
            instance.take_back(self.topic, self.partition, batch.count)
            batch.resolve(result := _too_large(e, batch.count))
            if isinstance(result, BatchTooLargeError):
                self._fail_waiting(result)  # otherwise they would precede the resent batch, out of order
        except Exception as e:  # noqa: BLE001 - the requests must get a result in any case
            # A rejected batch leaves a hole in the producer's sequence numbers: a new producer
            # starts a new sequence. The topic's cached state may be wrong as well.
            self._on_stale_metadata()
            self._producers.replace(instance, f"{self.topic}/{self.partition}: {type(e).__name__}")
            batch.resolve(_failure(e))
        finally:
            SEND_SECONDS_TALLY.observe(time.perf_counter() - started)
            self._budget.release(batch.size)


def _failure(error: Exception) -> OnrampError:
    return error if isinstance(error, InfrastructureError) else unknown_outcome(type(error).__name__)


def _too_large(error: Exception, count: int) -> OnrampError:
    if count == 1:
        return UserError(EVENT_TOO_LARGE, "larger than the topic's max.message.bytes")
    return BatchTooLargeError(KAFKA_UNAVAILABLE, type(error).__name__).surely(accepted=False)
