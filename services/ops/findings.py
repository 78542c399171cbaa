"""The audit's report: violations by receipt, unchecked parts, and the outcome."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

#: Outcomes of a replayed event in addition to `parked`.
OF_PARKED: Final = frozenset({"replayed", "replayed_duplicate"})


class Source(NamedTuple):
    """A partition, by its topic's name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


class Generation(NamedTuple):
    """A partition of one topic generation: a recreated topic has another id."""

    topic_id: str
    source: Source


class Table(NamedTuple):
    """A table of a database, as a destination of events."""

    database: str
    schema: str
    name: str

    @property
    def destination(self) -> str:
        """Return the name inside its database, as in the totals."""
        return f"{self.schema}.{self.name}"

    def __str__(self) -> str:
        return f"{self.database}.{self.destination}"


class Replayed(NamedTuple):
    """A parked event that landed later, or was there already; `to`: the table, if it is another one.

    `sha256` and `job` (the replay's UUID) are set if the landed bytes were edited.
    """

    offset: int
    destination: str
    outcome: str
    to: str | None
    sha256: bytes | None = None
    job: str | None = None


class Code(StrEnum):
    """Kinds of violations."""

    LOST = "lost"
    DUPLICATE = "duplicate"
    DOUBLE_TERMINAL = "double_terminal"
    PHANTOM = "phantom"
    CORRUPT = "corrupt"
    WRONG_TOTAL = "wrong_total"
    UNBALANCED = "unbalanced"
    BAD_MARKER = "bad_marker"
    GAP = "gap"
    NOT_STORED = "not_stored"
    REPLAY_LOST = "replay_lost"
    UNATTRIBUTED = "unattributed"


@dataclass(frozen=True, slots=True)
class Finding:
    """One violation.  `offset` is None for a partition or a count; `detail` has no values.

    `fix`: the command that fixes it, if one does.
    """

    code: Code
    source: Source
    offset: int | None
    detail: str
    fix: str = ""

    @property
    def receipt(self) -> str:
        """Return its position: topic/partition/offset."""
        return f"{self.source}" if self.offset is None else f"{self.source}/{self.offset}"

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        return {
            "code": self.code.value,
            "topic": self.source.topic,
            "partition": self.source.partition,
            "offset": self.offset,
            "detail": self.detail,
            "fix": self.fix,
        }


@dataclass(slots=True)
class Line:
    """The totals of one generation of a partition, up to the ledgers' `next_offset`."""

    topic_id: str
    topic: str
    partition: int
    baseline: int
    next_offset: int
    filtered: int = 0
    unroutable: int = 0
    #: Refused destinations without a database, of unroutable events and of others.
    refused: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    waiting: int = 0
    #: Known after reading receipts: offsets without a record, and events of the probe.
    holes: int | None = None
    probes: int | None = None

    @property
    def accounted(self) -> int:
        """Return the number of (event, destination) pairs with an outcome."""
        first = sum(n for outcome, n in self.outcomes.items() if outcome not in OF_PARKED)
        return self.filtered + self.refused + first + self.waiting

    @property
    def read(self) -> int:
        """Return the number of events that the writer has read, as far as it is known."""
        return self.next_offset - self.baseline - (self.holes or 0) - (self.probes or 0)


@dataclass(frozen=True, slots=True)
class LakeLine:
    """The totals of one Kafka partition in a table of the lake."""

    table: str
    topic: str
    partition: int
    next_offset: int
    #: Rows that the table's log counts, and those that `keep_days` has dropped.
    landed: int
    dropped: int
    #: Rows that the table has.
    rows: int


@dataclass(slots=True)
class TransformLine:
    """The totals of a transform in one source partition, up to its group's offset."""

    transform: str
    topic: str
    partition: int
    first: int
    next_offset: int
    #: Offsets that an operator accepted as lost.
    skipped: int = 0
    filtered: int = 0
    dropped: int = 0
    parked: int = 0
    emitted: int = 0
    outputs: int = 0
    #: Known after reading: records in this range, and different outputs on their topics.
    read: int | None = None
    on_kafka: int | None = None

    @property
    def accounted(self) -> int:
        """Return the number of records with an outcome."""
        return self.filtered + self.dropped + self.parked + self.emitted


@dataclass(slots=True)
class Report:
    """The audit's result."""

    deep: bool = False
    lines: list[Line] = field(default_factory=list)
    transforms: list[TransformLine] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    #: Sentences about unchecked parts, with the reason.
    unchecked: list[str] = field(default_factory=list)
    #: Events on Kafka above the ledgers: not settled yet.
    unsettled: int = 0
    #: Partitions of the lake's tables; empty without a lake.
    lake: list[LakeLine] = field(default_factory=list)
    #: Number of records that were read.
    receipts: int = 0
    #: Events missing in a table, without known routes.
    unjudged: int = 0
    #: Partitions with totals of different times, because a writer was running.
    in_motion: int = 0
    #: Needed partitions without a leader.
    leaderless: list[str] = field(default_factory=list)
    #: Databases that cannot be reached, or stopped answering, and were not read.
    unreachable: list[str] = field(default_factory=list)
    #: Tables that the audit's role may not read.
    unreadable: list[str] = field(default_factory=list)
    #: Foreign records on Onramp's own topics.
    foreign: int = 0
    #: Counts of retired databases by outcome, which are not compared; None: the database was not given.
    closed: Mapping[str, Mapping[str, int] | None] = field(default_factory=dict)
    #: Stored parked events by state; None without a control database.
    stored: dict[str, int] | None = None
    #: Parked events that the admin service has not stored yet.
    not_yet_stored: int = 0

    @property
    def balanced(self) -> bool:
        """Return whether there is no violation, and every event could be checked."""
        unchecked = self.unjudged or self.in_motion or self.leaderless or self.unreadable or self.unreachable
        return not self.findings and not unchecked

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        return {
            "balanced": self.balanced,
            "deep": self.deep,
            "receipts": self.receipts,
            "unsettled": self.unsettled,
            "unjudged": self.unjudged,
            "in_motion": self.in_motion,
            "leaderless": self.leaderless,
            "unreadable": self.unreadable,
            "unreachable": self.unreachable,
            "foreign": self.foreign,
            "closed": dict(self.closed),
            "stored": self.stored,
            "not_yet_stored": self.not_yet_stored,
            "partitions": [
                asdict(line) | {"accounted": line.accounted, "read": line.read} for line in self.lines
            ],
            "transforms": [asdict(line) | {"accounted": line.accounted} for line in self.transforms],
            "lake": [asdict(line) for line in self.lake],
            "findings": [f.as_dict() for f in self.findings],
            "unchecked": self.unchecked,
        }
