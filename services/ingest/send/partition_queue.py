"""A lane per partition: what many requests send to it flies in one batch at a time.

One batch in flight per partition keeps order whatever happens to the producer, and what
arrives until the next departure (`departures.py`) fills the next batch: the busier, the fewer
produce requests.  A request holds one future per batch that carries events of it, never one
per event.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from aiokafka.errors import MessageSizeTooLargeError, RecordListTooLargeError
from aiokafka.producer.message_accumulator import BatchBuilder

from services.ingest.observe.metrics import SEND_SPREAD
from services.ingest.send.byte_budget import ByteBudget
from services.ingest.send.departures import Departures
from services.ingest.send.kafka_producer import ProducerInstance, ProducerManager, unknown
from services.ingest.send.second_producer import ASK_SECONDS
from services.ingest.sink import Record
from shared.errors import (
    EVENT_TOO_LARGE,
    KAFKA_UNREACHABLE,
    SHUTTING_DOWN,
    InfrastructureError,
    OnrampError,
    UserError,
)

logger = logging.getLogger(__name__)

#: What a record costs beside its key and value, headers included: an estimate for the budget.
_OVERHEAD: Final = 150

_TOO_LARGE: Final = (MessageSizeTooLargeError, RecordListTooLargeError)

#: How a batch names its codec.
_CODECS: Final = {"none": 0, "gzip": 1, "lz4": 3, "zstd": 4}


@dataclass(frozen=True, slots=True)
class Way:
    """How batches leave: how long after each other, and how small."""

    linger_seconds: float = 0.0
    compression: Literal["none", "gzip", "lz4", "zstd"] = "none"

    @property
    def codec(self) -> int:
        """The codec's number in a batch."""
        return _CODECS[self.compression]


#: A batch's base offset, or why it failed.
BatchResult = int | OnrampError


class RequestSlice:
    """The events of one request that fly in one batch: `places` in the request, `first` in the batch."""

    __slots__ = ("first", "flight", "landed", "partition", "places")

    def __init__(self, flight: "InFlightBatch", partition: int, places: list[int]) -> None:
        self.places = places
        self.flight = flight
        self.first = flight.count
        self.partition = partition
        self.landed: asyncio.Future[BatchResult] = asyncio.get_running_loop().create_future()


class InFlightBatch:
    """A batch being filled or on its way."""

    __slots__ = ("builder", "count", "departed", "old", "parts", "size")

    def __init__(self, batch_bytes: int, codec: int = 0) -> None:
        # Not a producer's create_batch(): a batch may outlive the producer of its time.
        self.builder = BatchBuilder(batch_bytes, codec)
        self.parts: list[RequestSlice] = []
        self.count = 0
        self.size = 0
        #: Whether a producer has it: from then on nobody can tell before Kafka answers.
        self.departed = False
        #: Whether it waited already when somebody looked.
        self.old = False

    @property
    def abandoned(self) -> bool:
        """Whether nobody waits for it any more."""
        return all(part.landed.done() for part in self.parts)

    def land(self, landing: BatchResult) -> None:
        """Tell every request that still waits."""
        for part in self.parts:
            if not part.landed.done():
                part.landed.set_result(landing)


class PartitionQueue:
    """One partition of one topic."""

    def __init__(
        self,
        topic: str,
        partition: int,
        *,
        departures: Departures,
        producers: ProducerManager,
        budget: ByteBudget,
        surprised: Callable[[], None],
        codec: int,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.batch_bytes = 0
        self._codec = codec
        self._departures = departures
        self._producers = producers
        self._budget = budget
        self._surprised = surprised
        self._waiting: deque[InFlightBatch] = deque()
        self._flying: asyncio.Task[None] | None = None

    def put(self, records: Sequence[Record], places: list[int]) -> list[RequestSlice]:
        """Add the records at `places`, in order; returns the parts to wait for."""
        flight = self._waiting[-1] if self._waiting else self._open()
        if flight.parts and flight.abandoned:
            flight = self._open()  # its events were told that they are surely not on Kafka
        parts: list[RequestSlice] = []
        while places:
            taken = self._fill(flight, records, places)
            if taken:
                part = RequestSlice(flight, self.partition, places[:taken])
                flight.parts.append(part)
                flight.count += taken
                parts.append(part)
                places = places[taken:]
            if places:
                flight = self._open()  # empty, so it takes a record of any size
        if self._flying is None:
            self._queue()
        return parts

    def depart(self, generation: ProducerInstance) -> None:
        """Send the flight that waited longest, as it is when it leaves."""
        self._flying = asyncio.create_task(self._fly(generation))

    def _fill(self, flight: InFlightBatch, records: Sequence[Record], places: list[int]) -> int:
        """Add as many as fit; returns how many."""
        append = flight.builder.append
        taken = size = 0
        for place in places:
            record = records[place]
            key, value = record.key, record.value
            if append(timestamp=None, key=key, value=value, headers=record.headers) is None:
                break
            taken += 1
            size += len(key) + len(value)
        size += taken * _OVERHEAD
        flight.size += size
        self._budget.hold(size)
        return taken

    def drop_abandoned(self) -> None:
        """Forget waiting batches whose requests have all been answered."""
        for flight in [each for each in self._waiting if each.abandoned]:
            self._waiting.remove(flight)
            self._budget.give(flight.size)

    def seal(self) -> None:
        """Have nobody join a flight that was seen to wait: who came together is given up together.

        Only while there is no leader: behind a slow one, flights that grow are what keeps up.
        """
        if self._waiting:
            flight = self._waiting[-1]
            if flight.old:
                flight.builder.close()
            flight.old = True

    async def stop(self) -> None:
        """Give up what is waiting or in flight."""
        if self._flying is not None:
            self._flying.cancel()
            await asyncio.wait([self._flying])
        while self._waiting:
            flight = self._waiting.popleft()
            flight.land(InfrastructureError(SHUTTING_DOWN, "the gateway stopped before it was sent"))
            self._budget.give(flight.size)

    def _open(self) -> InFlightBatch:
        flight = InFlightBatch(self.batch_bytes, self._codec)
        self._waiting.append(flight)
        return flight

    def _queue(self) -> None:
        """Leave with the next departure; one that is full need not wait for it."""
        self._departures.want(self, full=len(self._waiting) > 1)

    async def _fly(self, generation: ProducerInstance) -> None:
        try:
            generation = await self._led(generation)
            if self._waiting:
                await self._send(self._waiting.popleft(), generation)
        finally:
            self._flying = None
            if self._waiting:
                self._queue()

    async def _led(self, generation: ProducerInstance) -> ProducerInstance:
        """The producer to send with, once the partition has a leader or nobody waits any more."""
        self.drop_abandoned()
        while self._waiting and generation.leaderless(self.topic, self.partition):
            # Here, where all of it is surely not on Kafka, and not in the producer of all names.
            generation.ask()
            await asyncio.sleep(ASK_SECONDS)
            self.seal()
            generation = await self._producers.current()
            self.drop_abandoned()
        return generation

    async def _send(self, flight: InFlightBatch, generation: ProducerInstance) -> None:
        began = time.perf_counter()
        try:
            flight.departed = True
            flight.land(await generation.send(flight.builder, self.topic, self.partition))
        except asyncio.CancelledError:
            flight.land(unknown("the gateway stopped before Kafka answered"))
            raise
        except Exception as e:  # noqa: BLE001 - whatever it was, the requests must hear of it
            # A refused batch leaves a hole in the producer's sequence numbers: a new producer
            # starts a new sequence.  What is known of the topic may be wrong as well.
            self._surprised()
            self._producers.replace(generation, f"{self.topic}/{self.partition}: {type(e).__name__}")
            flight.land(_failure(e, flight.count))
        finally:
            SEND_SPREAD.observe(time.perf_counter() - began)
            self._budget.give(flight.size)


def give_up(late: Collection[RequestSlice], seconds: float) -> None:
    """Answer parts whose deadline has passed; with all of its parts a flight that waits is given up.

    It then never flies (`abandoned`), so its events are surely not on Kafka.  One that flies
    later for others may take the late ones along.
    """
    never = {part.flight for part in late if _nobody_else(part.flight, late)}
    for part in late:
        if not part.landed.done():
            part.landed.set_result(_late(seconds, flies=part.flight not in never))


def _nobody_else(flight: InFlightBatch, late: Collection[RequestSlice]) -> bool:
    return not flight.departed and all(part.landed.done() or part in late for part in flight.parts)


def _late(seconds: float, *, flies: bool) -> InfrastructureError:
    if flies:
        return unknown(f"no acknowledgement within {seconds:g} s")
    return InfrastructureError(KAFKA_UNREACHABLE, f"it could not be sent within {seconds:g} s")


def _failure(error: Exception, count: int) -> OnrampError:
    if isinstance(error, InfrastructureError):
        return error
    if isinstance(error, _TOO_LARGE) and count == 1:
        return UserError(EVENT_TOO_LARGE, "larger than the topic's max.message.bytes")
    failure = unknown(type(error).__name__)
    # Too large is too large at every try: none of them was appended.
    return failure.surely(accepted=False) if isinstance(error, _TOO_LARGE) else failure
