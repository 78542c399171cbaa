"""Values of a source's observed and stored state: its tables, its slot and its status."""

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
    "an update that leaves a large array alone ({}) has NULL for it, which its NOT NULL forbids, and would "
    "fail the whole source: let a CHECK forbid it (ALTER TABLE … {})"
)
#: The line terminators of Java, which `.*` does not match.
_LINE_ENDS: Final = re.compile("[\n\r\x85\u2028\u2029]")
#: Reasons by code: why a snapshot, or the log, would miss rows of a table.
HIDDEN: Final = {
    "policies": (
        "its policies hide rows from the role, and a snapshot would miss them: ALTER ROLE … BYPASSRLS"
    ),
    "elsewhere": (
        "it is a partition of a table in another schema of the publication, and its changes have that "
        "table's name: list that schema too, or take it out of the publication"
    ),
    "heirs": (
        "other tables inherit from it (INHERITS), and a snapshot would take their rows for its own: exclude "
        "it, or make them its partitions"
    ),
    "foreign": (
        "one of its partitions is a foreign table, whose rows are in a snapshot, but not in the log: "
        "detach it"
    ),
    "identity": (
        "other columns than its own identify the rows of one of its partitions, and updates and deletes "
        "there would find none: ALTER TABLE … REPLICA IDENTITY FULL, of that partition"
    ),
    "unlogged": (
        "one of its partitions is unlogged, and the log has no changes of it: ALTER TABLE … SET LOGGED"
    ),
}


class State(StrEnum):
    """The status of a source."""

    #: Kafka Connect reads the slot and sends changes.
    STREAMING = "streaming"
    #: The connector was created or restarted and its slot is not active yet, or its first snapshot runs.
    STARTING = "starting"
    #: The source or Kafka Connect is unreachable.
    UNREACHABLE = "unreachable"
    #: The publication, rights or `wal_level` are missing: `onramp sources sql`.
    SETUP_REQUIRED = "setup_required"
    #: The connector has failed and is restarted.
    FAILED = "failed"
    #: Another program reads the slot.
    SLOT_IN_USE = "slot_in_use"
    #: Another agent watches the source; this agent takes over when that one has ended.
    STANDBY = "standby"
    #: Changes are missing: `onramp sources resync`.
    OUT_OF_SYNC = "out_of_sync"


class Column(NamedTuple):
    """A column, with its type as `format_type` returns it."""

    name: str
    type: str
    not_null: bool
    generated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Resnapshot:
    """A pending re-snapshot of a table, its reason and, once requested, its reader and start.

    `open`: transactions with lower ids may have begun before the change: they must end first. `after`:
    the end of the source's WAL at that time; Kafka must have everything before it. `reader`: the slot's
    reader at the request. `start`: the end of the table's topic. `token`: identifies the snapshot's
    marker, a logical message of the source from the offset `messages` on; empty when there is no marker.
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
    #: A key of `HIDDEN`: why the rows cannot be captured; empty when they can.
    hidden: str = ""

    @property
    def full_name(self) -> str:
        """`schema.table`, unquoted."""
        return f"{self.schema}.{self.name}"

    def condition(self, token: UUID | None) -> dict[str, str] | None:
        """Return the query of a snapshot that emits its marker with `token`; None without a token."""
        if token is None:
            return None
        columns = {column.name: column.generated for column in self.columns}
        return snapshot_marker.condition(
            token, oid=self.oid, schema=self.schema, name=self.name, columns=columns
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """The observed state of a source at one moment."""

    #: The end of its WAL before the tables were read.
    lsn: str
    #: The end of its WAL after the tables were read.
    tables_lsn: str
    #: All transactions with ids below `ended` have ended; none had an id of `begun` or higher.
    ended: int = 0
    begun: int = 0
    tables: tuple[Table, ...] = ()
    slot: Slot | None = None
    #: Why the source cannot be captured; empty when it can.
    unprepared: str = ""
    #: Whether a schema is missing: it may have been renamed, and may return later.
    lacks_schema: bool = False
    #: Excluded tables, each with its reason.
    excluded_tables: Mapping[str, str] = field(default_factory=dict)

    @property
    def captured(self) -> dict[str, Table]:
        """Return the captured tables whose changes have their own name (not a root's), by full name."""
        return {
            table.full_name: table
            for table in self.tables
            if not table.is_partition and table.full_name not in self.excluded_tables
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The status of a source as operators see it."""

    state: State
    reason: str = ""
    heartbeat_age_s: float | None = None
    source_state: SourceState | None = None
    readers: Readers = field(default_factory=Readers)
    suspended: int = 0
    #: Seconds for which landed changes have waited for the merger.
    unmerged_s: float = 0.0

    @property
    def news(self) -> str:
        """Return the text that the log reports once: amounts that grow from poll to poll are left out."""
        return f"{self.state} {_AMOUNT.sub('', self.reason)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredState:
    """The stored state of a source: gaps, requests, and its tables at the last poll."""

    out_of_sync_lsn: str | None = None
    out_of_sync_at: datetime | None = None
    out_of_sync_why: str | None = None
    resync_requested_at: datetime | None = None
    #: The tables' fingerprints at the last poll, by full name; None before the first.
    tables: Mapping[str, RowsStamp] | None = None
    #: Tables to re-snapshot, each with its reason.
    resnapshots: Mapping[str, Resnapshot] = field(default_factory=dict)
    #: The readers of the slot at the last poll.
    readers: Readers = field(default_factory=Readers)
    #: Whether the source's first snapshot is over, and whether its slot was observed since that began.
    streams: bool = False
    had_slot: bool = False
    #: The number of suspended tables, and the next offset of other tables with changes to merge, by landing
    #: table.
    suspended: int = 0
    behind: Mapping[str, int] = field(default_factory=dict)

    def is_another(self, table: Table) -> bool:
        """Return whether another table has had the table's name since the last poll."""
        before = (self.tables or {}).get(table.full_name)
        return before is not None and before.oid != table.oid


def excluded_tables(tables: Iterable[Table], source: Source) -> dict[str, str]:
    """Return the excluded tables, which would fail the whole source, by full name, each with its reason.

    Kafka treats `.` and `_` in topics as the same. Debezium rejects columns that differ by case before it
    checks whether the table is excluded. Its driver opens the cursors that a row names, which ends a
    snapshot. Debezium sends NULL where it cannot mark a value as unchanged.
    """
    found = {
        name: f"two tables of different schemas have the changes' name {name}: rename one"
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
            "a name that begins or ends with a double quote is parsed as a quoted name, and each snapshot of "
            "the whole source would fail: rename it"
        )
    if _LINE_ENDS.search(table.full_name):
        yield "each snapshot skips a name with a line break: rename it"
    if "%" in table.full_name:
        yield "a name with a percent sign is parsed as a parameter in the merge: rename it"
    if not (table.key or snapshot_marker.takes(table.full_name)):
        yield (
            "it has no key, and a name that Debezium may reject as a regular expression, so that it could "
            "not be re-snapshotted: give it a key, or rename it"
        )


def _topic(table: Table) -> str:
    return names.topic("", table.schema, table.name)
