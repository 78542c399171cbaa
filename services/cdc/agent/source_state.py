"""What the agent sees of a source and keeps of it, as values: its tables, its slot, and how it is."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID

from services.cdc.agent import names
from services.cdc.change_detection import snapshot_marker
from services.cdc.change_detection.table_fingerprint import RowsStamp
from services.cdc.health.slot import Readers, Slot
from services.cdc.merge.column_types import AMBIGUOUS, is_silent
from shared.postgres.quoting import identifier
from shared.registry.sources import Source

_AMOUNT: Final = re.compile(r"\d+(\.\d+)? (s|GB)\b")
_SILENT: Final = (
    "an update that leaves a large array alone ({}) tells it as NULL, which its NOT NULL forbids, and would "
    "fail the whole source: let a CHECK forbid it (ALTER TABLE … {})"
)
#: By these a line ends for Java, whose `.*` no such name is.
_LINE_ENDS: Final = re.compile("[\n\r\x85\u2028\u2029]")
#: By why a snapshot, or the log, would not have a table's rows: what is said of it.
HIDDEN: Final = {
    "policies": (
        "its policies hide rows from the role, and a snapshot would miss them: ALTER ROLE … BYPASSRLS"
    ),
    "elsewhere": (
        "it is a partition of a table in another schema of the publication, and its changes are told as that "
        "table's: list that schema too, or take it out of the publication"
    ),
    "heirs": (
        "other tables inherit from it (INHERITS), and a snapshot would take their rows for its own: exclude "
        "it, or make them its partitions"
    ),
    "foreign": (
        "one of its partitions is a foreign table, of which a snapshot has the rows and the log no change: "
        "detach it"
    ),
    "identity": (
        "the rows of one of its partitions are told by other columns than its own, and updates and deletes "
        "there would find none: ALTER TABLE … REPLICA IDENTITY FULL, of that partition"
    ),
    "unlogged": (
        "one of its partitions is unlogged, and its changes are nowhere to be read: ALTER TABLE … SET LOGGED"
    ),
}


class State(StrEnum):
    """How a source is."""

    #: Its changes flow.
    STREAMING = "streaming"
    #: The connector was made or restarted and its slot is not active yet, or its first snapshot is read.
    STARTING = "starting"
    #: It cannot be reached, or Kafka Connect cannot.
    UNREACHABLE = "unreachable"
    #: Its publication, rights or `wal_level` are missing: `onramp sources sql`.
    SETUP_REQUIRED = "setup_required"
    #: Its connector has failed and is restarted.
    FAILED = "failed"
    #: Another program reads its slot.
    SLOT_IN_USE = "slot_in_use"
    #: Another agent watches over it; this one does when that has ended.
    STANDBY = "standby"
    #: Changes are missing: `onramp sources resync`.
    OUT_OF_SYNC = "out_of_sync"


class Column(NamedTuple):
    """A column, its type as `format_type` has it."""

    name: str
    type: str
    not_null: bool
    generated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Resnapshot:
    """A table that must be read again, and why; once it is asked for also of whom, and where it will begin.

    `open`: transactions with lower ids may still be open that began before that was so: they must have ended.
    `after`: where the source's WAL ended then; Kafka must have what is in front of it.
    `reader`: who read the slot then. `start`: the end of the table's topic.
    `token`: by which the snapshot tells what it has seen, in a message of the source's from the offset
    `messages` on; empty if it does not.
    """

    why: str = ""
    open: int = 0
    after: int = 0
    is_requested: bool = False
    reader: str | None = None
    start: int = 0
    token: str = ""
    messages: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table as the catalogue has it now; `key` is None when rows have no identity of their own."""

    oid: int
    schema: str
    name: str
    columns: tuple[Column, ...]
    rows_stamp: RowsStamp
    key: tuple[str, ...] | None = None
    is_partition: bool = False
    #: Why its rows cannot be captured, as `HIDDEN` has it; empty when they can.
    hidden: str = ""

    @property
    def full_name(self) -> str:
        """`schema.table`, unquoted."""
        return f"{self.schema}.{self.name}"

    def condition(self, token: UUID | None) -> dict[str, str] | None:
        """Return the query of a snapshot that tells what it has seen by `token`; None without one."""
        if token is None:
            return None
        columns = {column.name: column.generated for column in self.columns}
        return snapshot_marker.condition(
            token, oid=self.oid, schema=self.schema, name=self.name, columns=columns
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """A source at one moment."""

    #: Where its WAL ended before the tables were looked at.
    lsn: str
    #: Where it ended after that.
    tables_lsn: str
    #: All transactions with ids below the first have ended then; none had one from the second on.
    ended: int = 0
    begun: int = 0
    tables: tuple[Table, ...] = ()
    slot: Slot | None = None
    #: Why the source cannot be captured; empty when it can.
    unprepared: str = ""
    #: Whether a schema is not there: it may be back later, by another name meanwhile.
    lacks_schema: bool = False
    #: Names of tables that stay out and why.
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def captured(self) -> dict[str, Table]:
        """Return the tables of which changes are told by their own names, by full name."""
        return {
            table.full_name: table
            for table in self.tables
            if not table.is_partition and table.full_name not in self.left_out
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """How a source is, for people."""

    state: State
    reason: str = ""
    heartbeat_age_s: float | None = None
    source_state: SourceState | None = None
    readers: Readers = field(default_factory=Readers)
    suspended: int = 0
    #: For how long landed changes wait for the modeler, in seconds.
    unmerged_s: float = 0.0

    @property
    def news(self) -> str:
        """Return what the log says of it once: an amount that grows from look to look is no news."""
        return f"{self.state} {_AMOUNT.sub('', self.reason)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredState:
    """What is kept of a source: since when it is out of sync, what is asked, what its tables were."""

    out_of_sync_lsn: str | None = None
    out_of_sync_at: datetime | None = None
    out_of_sync_why: str | None = None
    resync_wanted_at: datetime | None = None
    #: By full name: the tables' stamps at the last look; None before the first.
    tables: Mapping[str, RowsStamp] | None = None
    #: Tables that must be read again, and why.
    resnapshots: Mapping[str, Resnapshot] = field(default_factory=dict)
    #: Who read the slot at the last look.
    readers: Readers = field(default_factory=Readers)
    #: Whether the source's first snapshot is over, and whether its slot was observed since that began.
    streams: bool = False
    had_slot: bool = False
    #: How many tables are held, and of others that have changes to merge the next offset, by landing table.
    suspended: int = 0
    behind: Mapping[str, int] = field(default_factory=dict)

    def is_another(self, table: Table) -> bool:
        """Whether a table was dropped, and another one has its name since the last look."""
        before = (self.tables or {}).get(table.full_name)
        return before is not None and before.oid != table.oid


def left_out(tables: Iterable[Table], source: Source) -> dict[str, str]:
    """Return the tables that would fail the whole source, by full name, each with its reason.

    Kafka takes `.` and `_` in topics for the same. Debezium refuses columns that differ by case, before it
    looks whether the table is excluded. Its driver opens the cursors that a row names, which ends a snapshot.
    Where it cannot say that a value was left alone, it says NULL.
    """
    found = {
        name: f"two tables of different schemas are told as {name}: rename one"
        for name, count in Counter(t.full_name for t in tables if source.takes(t.schema, t.name)).items()
        if count > 1
    }
    topics = defaultdict[str, list[Table]](list)
    for table in sorted(tables, key=lambda t: t.oid):
        if table.is_partition or not source.takes(table.schema, table.name):
            continue
        topics[_topic(table).replace(".", "_")].append(table)
        if why := "; ".join(_why_out(table)):
            found.setdefault(table.full_name, why)
    for first, *others in topics.values():
        for other in others:
            if _topic(other) != _topic(first):
                found[other.full_name] = f"its topic would collide with that of {first.full_name}"
    return found


def _why_out(table: Table) -> Iterator[str]:
    folded = [column.name.lower() for column in table.columns]
    if len(set(folded)) < len(folded):
        twice = sorted({name for name in folded if folded.count(name) > 1})
        yield (
            f"columns differ by case alone ({', '.join(twice)}), and its first change would fail the "
            "whole source, excluded or not: rename one"
        )
    yield from _why_its_name(table)
    if all(column.generated for column in table.columns):
        yield "it has no column to be captured, and each snapshot of the whole source would fail: give it one"
    if table.hidden:
        yield HIDDEN[table.hidden]
    if cursors := [column.name for column in table.columns if column.type == "refcursor"]:
        yield (
            f"a value of the type refcursor ({', '.join(cursors)}) would end each snapshot of the whole "
            "source: give the column the type text"
        )
    if ambiguous := [column.name for column in table.columns if AMBIGUOUS in column.type]:
        yield (
            f"another schema has another kind of type by the name of that of {', '.join(ambiguous)}: "
            "taken for it a value would be another one, or fail the whole source: rename one of the types"
        )
    if silent := [c for c in table.columns if c.not_null and not c.generated and is_silent(c.type)]:
        yield _SILENT.format(
            ", ".join(f"{column.name} {column.type}" for column in silent),
            ", ".join(
                f"ALTER {name} DROP NOT NULL, ADD CHECK ({name} IS NOT NULL)"
                for name in (identifier(c.name) for c in silent)
            ),
        )


def _why_its_name(table: Table) -> Iterator[str]:
    if any('"' in (name[0], name[-1]) for name in (table.schema, table.name)):
        yield (
            "a name that begins or ends with a double quote is taken for one in quotes, and each snapshot of "
            "the whole source would fail: rename it"
        )
    if _LINE_ENDS.search(table.full_name):
        yield "a name in which a line ends is passed over by each snapshot: rename it"
    if "%" in table.full_name:
        yield "a name with a percent sign is taken for a place of a value where it is merged: rename it"
    if not (table.key or snapshot_marker.takes(table.full_name)):
        yield (
            "it has no key, and a name that Debezium may not take for a regular expression, so that it could "
            "not be read again: give it a key, or rename it"
        )


def _topic(table: Table) -> str:
    return names.topic("", table.schema, table.name)
