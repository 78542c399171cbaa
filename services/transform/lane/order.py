"""The order that the driver gives to a lane run, and the run's report.  An order has no positions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from shared import wire
from shared.errors import Fault
from shared.kafka_read.offsets import Partition
from shared.kafka_security import Brokers
from shared.registry.entries import EventType, topic_of

#: Maximum events of one transaction.
MAX_EVENTS: Final = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneOrder:
    """One run of one lane: the source partitions whose number modulo `lanes` is `lane`."""

    name: str
    lane: int
    lanes: int
    epoch: int
    source_type: str
    source_topic: str
    start: Literal["now", "earliest"]
    #: SHA-256 of the function's source.
    digest: str
    #: The registered types of the outputs; a name of `outputs` without a type is unregistered.
    event_types: Mapping[str, EventType]
    outputs: frozenset[str]
    brokers: Brokers
    budget_seconds: float
    idle_seconds: float = 0.5
    max_event_bytes: int = 900_000
    #: Whether an operator accepts that positions outside of the log move to its nearest end.
    accept: bool = False

    @property
    def transactional_id(self) -> str:
        """Return the id that fences other runs of this lane."""
        return transactional_id(self.name, self.lane)

    @property
    def group(self) -> str:
        """Return the consumer group that has the positions."""
        return group_of(self.name)

    @property
    def destination(self) -> str:
        """Return the destination of parked events."""
        return wire.TRANSFORM_DESTINATION + self.name

    @property
    def version(self) -> str:
        """Return the text of the header onramp-transform."""
        return f"{self.name}@{self.digest}"

    def has(self, partition: Partition) -> bool:
        """Return whether the partition belongs to this lane; replays belong to lane 0."""
        if partition.topic == wire.TRANSFORM_REPLAYS:
            return self.lane == 0
        return partition.topic == self.source_topic and partition.number % self.lanes == self.lane

    def topic_of(self, event_name: str) -> str:
        """Return the topic of an output."""
        return topic_of(event_name, self.event_types)


@dataclass(slots=True)
class LaneReport:
    """The result of a run.  Events are counted on Kafka, as the report of a killed run is lost."""

    name: str
    lane: int
    transactions: int = 0
    events: int = 0
    function_seconds: float = 0.0
    #: Positions after the last commit.
    positions: dict[Partition, int] = field(default_factory=dict)
    #: Partitions for which lane 0 has not committed a first position.
    without_position: int = 0
    fault: Fault | None = None
    detail: str = ""
    #: Partitions that cannot be read, with the reasons; the others were read.
    unreadable: str = ""
    #: Whether a position is outside of the log, so that the transform pauses.
    is_lost: bool = False


def transactional_id(name: str, lane: int) -> str:
    """Return the transactional id of a lane."""
    return f"{wire.TRANSFORM_GROUP}{name}-{lane}"


def group_of(name: str) -> str:
    """Return the consumer group of a transform."""
    return wire.TRANSFORM_GROUP + name
