"""The order that the driver gives to the tasks of a batch, and their reports."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field

from services.lake.routes.lake_routes import LakeRoutes
from shared.kafka_read.offsets import Partition, Range
from shared.kafka_security import Brokers
from shared.lake.lake_topic import PositionKey
from shared.lake.storage import Storage
from shared.lake.transactions import TablePosition


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeOrder:
    """One batch: its ranges and routes, and the positions that its tables must have."""

    ranges: Mapping[Partition, Range]
    routes: LakeRoutes
    brokers: Brokers
    storage: Storage
    #: The id of the Kafka cluster, which the tables' property `onramp.owner` names.
    owner: str
    flush_bytes: int
    #: The first offset of a partition that a table takes; without an entry, all.
    starts: Mapping[PositionKey, int] = field(default_factory=dict)
    #: Positions that the tables had; a table behind its position was restored or replaced.
    positions: Mapping[PositionKey, TablePosition] = field(default_factory=dict)


@dataclass(slots=True)
class TableReport:
    """The commits of one table in one task."""

    table: str
    _: KW_ONLY
    positions: dict[PositionKey, TablePosition] = field(default_factory=dict)
    rows: int = 0
    commits: int = 0
    #: Commits that another commit has refused; each was repeated.
    refused: int = 0
    #: Values that do not fit the type of their column.
    rescued: int = 0
    #: Rows whose id an earlier row of the same commit has.
    repeated: int = 0
    #: The code of the error table, and the reason, if the table has not taken all rows.
    failure: str | None = None
    detail: str = ""


@dataclass(slots=True)
class RangeReport:
    """The records of one range."""

    partition: Partition
    _: KW_ONLY
    read: int = 0
    #: Records for no table of the lake.
    filtered: int = 0
    #: The first table that has not taken all rows of the range.
    failed_table: str = ""
    #: Why its records cannot be read.
    unreadable: str = ""


@dataclass(slots=True)
class LakeReport:
    """The report of one task."""

    tables: list[TableReport] = field(default_factory=list)
    ranges: list[RangeReport] = field(default_factory=list)
    #: The code of the error table, and the reason, if Kafka could not be read.
    failure: str | None = None
    detail: str = ""
