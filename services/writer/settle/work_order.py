"""The order that the driver gives to the tasks of a batch, and their reports."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field

from services.writer.model.routes import Routes
from services.writer.postgres.database import Database
from services.writer.settle.event_type_pauses import PausePolicy
from shared.errors import TABLE, InfrastructureError
from shared.kafka_read.offsets import Partition, Range
from shared.kafka_security import Brokers


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOrder:
    """One batch: its ranges, the databases that land or divert its events, and the writer's epoch."""

    epoch: int
    ranges: Mapping[Partition, Range]
    landing: tuple[Database, ...]
    diverted: tuple[str, ...]
    routes: Routes
    brokers: Brokers
    pause_policy: PausePolicy = field(default_factory=PausePolicy)
    #: Maximum lines about events that each process writes per second.
    event_lines: int = 0
    #: Databases whose events this order ignores: a refill is for one database alone.
    elsewhere: tuple[str, ...] = ()

    @property
    def databases(self) -> frozenset[str]:
        """Return every database that an event of this order may be for."""
        return frozenset({*(d.name for d in self.landing), *self.diverted, *self.elsewhere})


@dataclass(slots=True)
class TaskReport:
    """One line of a task's report: the result of a range, in one database or (`database` "") in all.

    `failure` is a code of the error table.  It is None when the range is settled in the database or, for a
    diverted database, when Kafka has stored its events.
    """

    topic: str
    partition: int
    database: str = ""
    _: KW_ONLY
    failure: str | None = None
    detail: str | None = None
    read: int = 0
    #: Approximate bytes of the records.
    size: int = 0
    filtered: int = 0
    unroutable: int = 0
    refused: int = 0
    rows: int = 0
    parked: int = 0
    #: Events that wait in the database itself, behind a hold.
    waiting: int = 0
    #: Seconds that the events took in the database.
    seconds: float = 0.0
    diverted: int = 0
    diverted_from: int = -1
    #: The task's step timings, for the metrics: JSON, on one of its reports.
    work: str | None = None
    #: Seconds for which the task had its slot, on one of its reports.
    slot_seconds: float = 0.0
    #: The delays of its committed events (`commit_delays`): JSON, on one of its reports.
    delays: str | None = None
    #: The number of its committed events (`outcome_counts`): JSON, on one of its reports.
    outcomes: str | None = None

    @property
    def range_of(self) -> Partition:
        """Return the partition whose range this report is about."""
        return Partition(self.topic, self.partition)

    @property
    def error(self) -> InfrastructureError | None:
        """Return the exception for `failure`."""
        return InfrastructureError(TABLE[self.failure], self.detail or "") if self.failure else None
