"""The port to Kafka, and the in-memory sink.

A sink writes to one backend. It does not retry past the deadline and never raises for one record:
every record gets exactly one outcome, in the order of the records.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from shared.errors import KAFKA_UNREACHABLE, InfrastructureError, OnrampError
from shared.partitioner import partition_of

Headers = list[tuple[str, bytes]]


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record to be produced to Kafka."""

    topic: str
    key: bytes
    value: bytes
    headers: Headers


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """The position of an event on Kafka.

    `offset` is None if the broker recognises the batch as a repeat but no longer knows its
    offset: the event is on Kafka nevertheless.
    """

    topic: str
    partition: int
    offset: int | None


SendResult = Receipt | OnrampError


class Health(msgspec.Struct, frozen=True):
    """The state of the sink's cluster: brokers that are up, and replicas that an acknowledgement needs."""

    reachable: bool
    brokers: int
    min_insync_replicas: int

    @property
    def ready(self) -> bool:
        """Return whether enough brokers are up for an acknowledgement."""
        return self.reachable and self.brokers >= self.min_insync_replicas


class Sink(Protocol):
    """A backend that stores accepted events."""

    async def send(self, records: Sequence[Record]) -> list[SendResult]:
        """Send `records`; return when each is acknowledged or has failed, within the deadline."""
        ...

    async def health(self) -> Health:
        """Return the backend's state; never raises."""
        ...


class MemorySink:
    """A sink for tests and tools: topics are lists, `down` simulates an outage."""

    def __init__(self, partitions: int = 2) -> None:
        self.partitions = partitions
        self.down = False
        self.topics: dict[str, list[list[Record]]] = {}

    async def send(self, records: Sequence[Record]) -> list[SendResult]:
        """Append every record to its partition's list."""
        return [self._append(record) for record in records]

    async def health(self) -> Health:
        """Return the state that `down` implies."""
        return Health(reachable=not self.down, brokers=0 if self.down else 1, min_insync_replicas=1)

    def records(self, topic: str) -> list[Record]:
        """Return all records of a topic, partition after partition."""
        return [record for partition in self.topics.get(topic, []) for record in partition]

    def _append(self, record: Record) -> SendResult:
        if self.down:
            return InfrastructureError(KAFKA_UNREACHABLE, "the memory sink simulates an outage")
        topic = self.topics.setdefault(record.topic, [[] for _ in range(self.partitions)])
        partition = partition_of(record.key, self.partitions)
        topic[partition].append(record)
        return Receipt(record.topic, partition, len(topic[partition]) - 1)
