"""What the audit reports: violations by receipt, what it could not check, and the verdict."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

#: Outcomes that an event has beside `parked`, once it is replayed.
OF_PARKED: Final = frozenset({"replayed", "replayed_duplicate"})


class Source(NamedTuple):
    """A partition, by its topic's name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


class Generation(NamedTuple):
    """A partition of one generation of a topic: a topic that was recreated has another id."""

    topic_id: str
    source: Source


class Table(NamedTuple):
    """A table of a database, as a destination of events."""

    database: str
    schema: str
    name: str

    @property
    def destination(self) -> str:
        """Return it as the totals name it, inside its database."""
        return f"{self.schema}.{self.name}"

    def __str__(self) -> str:
        return f"{self.database}.{self.destination}"


class Replayed(NamedTuple):
    """An event that was parked and landed later, or was there already; `to`: the table, if another's.

    `sha256`: of the bytes that landed, if they were edited; `job`: the replay's UUID, then.
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
    """One violation.  `offset` is None when it is about a partition or a count; no values in `detail`.

    `fix`: what puts it right, where that is one command.
    """

    code: Code
    source: Source
    offset: int | None
    detail: str
    fix: str = ""

    @property
    def receipt(self) -> str:
        """Return where it is: topic/partition/offset."""
        return f"{self.source}" if self.offset is None else f"{self.source}/{self.offset}"

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
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
    """The books of one generation of a partition, up to the ledgers' `next_offset`."""

    topic_id: str
    topic: str
    partition: int
    baseline: int
    next_offset: int
    filtered: int = 0
    unroutable: int = 0
    #: Destinations that were refused without a database, of unroutable events and of others.
    refused: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    waiting: int = 0
    #: Known after the receipts were read: offsets without a record, and events of the probe.
    holes: int | None = None
    probes: int | None = None

    @property
    def accounted(self) -> int:
        """Return how many (event, destination) have a verdict."""
        first = sum(n for outcome, n in self.outcomes.items() if outcome not in OF_PARKED)
        return self.filtered + self.refused + first + self.waiting

    @property
    def read(self) -> int:
        """Return how many events the writer has read, as far as that is known."""
        return self.next_offset - self.baseline - (self.holes or 0) - (self.probes or 0)


@dataclass(slots=True)
class Report:
    """The audit's result."""

    deep: bool = False
    lines: list[Line] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    #: Sentences: what this audit could not check, and why.
    unchecked: list[str] = field(default_factory=list)
    #: Events on Kafka above the ledgers: not settled yet.
    unsettled: int = 0
    #: Records that were read again.
    receipts: int = 0
    #: Events that are not in a table, and nobody knows whether they were routed there.
    unjudged: int = 0
    #: Partitions whose sums are not of one moment: a writer was in the middle of them.
    in_motion: int = 0
    #: Partitions that no broker leads, of what this audit needs.
    leaderless: list[str] = field(default_factory=list)
    #: Tables that the audit's role may not read.
    unreadable: list[str] = field(default_factory=list)
    #: Records on Onramp's own topics that are not Onramp's.
    foreign: int = 0
    #: Retired databases: nothing is compared with their counts, by outcome; None: the database was not given.
    closed: Mapping[str, Mapping[str, int] | None] = field(default_factory=dict)
    #: By state, what the control database keeps of what was parked; None: there is none.
    kept: dict[str, int] | None = None
    #: Parked events that the admin service has not come to yet.
    not_yet_kept: int = 0

    @property
    def balanced(self) -> bool:
        """Tell whether nothing is wrong, and all that was read could be judged."""
        unchecked = self.unjudged or self.in_motion or self.leaderless or self.unreadable
        return not self.findings and not unchecked

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "balanced": self.balanced,
            "deep": self.deep,
            "receipts": self.receipts,
            "unsettled": self.unsettled,
            "unjudged": self.unjudged,
            "in_motion": self.in_motion,
            "leaderless": self.leaderless,
            "unreadable": self.unreadable,
            "foreign": self.foreign,
            "closed": dict(self.closed),
            "kept": self.kept,
            "not_yet_kept": self.not_yet_kept,
            "partitions": [
                asdict(line) | {"accounted": line.accounted, "read": line.read} for line in self.lines
            ],
            "findings": [f.as_dict() for f in self.findings],
            "unchecked": self.unchecked,
        }
