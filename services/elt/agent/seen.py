"""What the agent sees of a source, as values: its tables, its slot, and how it is."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Self

from services.elt.agent import names
from services.elt.health.slot import Slot
from shared.registry.sources import Source


class State(StrEnum):
    """How a source is."""

    #: Its changes flow.
    FLOWING = "flowing"
    #: The connector was made or restarted and its slot is not active yet, or its first snapshot is read.
    STARTING = "starting"
    #: It cannot be reached, or Kafka Connect cannot.
    UNREACHABLE = "unreachable"
    #: Its publication, rights or `wal_level` are missing: `onramp sources sql`.
    UNPREPARED = "unprepared"
    #: Its connector has failed and is restarted.
    FAILED = "failed"
    #: Another program reads its slot.
    TAKEN = "taken"
    #: Changes are missing: `onramp sources resync`.
    OUT_OF_SYNC = "out_of_sync"


class Column(NamedTuple):
    """A column, its type as `format_type` has it."""

    name: str
    type: str
    not_null: bool
    generated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsStamp:
    """What of a table changes when its rows change and nobody is told: columns by number, and partitions.

    `columns` has the name, the type's oid, its modifier, and whether rows get a default.
    """

    oid: int
    columns: Mapping[str, Sequence[Any]]
    partitions: Sequence[int] = ()

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Return the stamp that is kept as `document`."""
        return cls(
            oid=document["oid"],
            columns=document["columns"] or {},
            partitions=tuple(document["partitions"] or ()),
        )

    def document(self) -> dict[str, Any]:
        """Return it to be kept."""
        return {"oid": self.oid, "columns": dict(self.columns), "partitions": list(self.partitions)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reread:
    """A table that must be read again, and why; once it is asked for also of whom, and where it will begin.

    `after`: where the source's WAL ended when the agent saw why; Kafka must have what is in front of it.
    `reader`: who read the slot then. `start`: the end of the table's topic.
    """

    why: str = ""
    after: int = 0
    is_asked: bool = False
    reader: int | None = None
    start: int = 0

    @classmethod
    def of(cls, document: Any) -> Self:
        """Return what is kept as `document`; a text alone is a reason, as releases before kept it."""
        return cls(why=document) if isinstance(document, str) else cls(**document)


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

    @property
    def full_name(self) -> str:
        """`schema.table`, unquoted."""
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A source at one moment."""

    #: Where its WAL ended before the tables were looked at.
    lsn: str
    #: Where it ended after that.
    tables_lsn: str = "0/0"
    tables: tuple[Table, ...] = ()
    slot: Slot | None = None
    #: Why the source cannot be captured; empty when it can.
    unprepared: str = ""
    #: Names of tables that stay out and why.
    left_out: Mapping[str, str] = field(default_factory=dict)


def left_out(tables: Iterable[Table], source: Source) -> dict[str, str]:
    """Return the tables that would fail the whole source, by full name, each with its reason.

    Kafka takes `.` and `_` in topics for the same. Debezium refuses columns that differ by case, before it
    looks whether the table is excluded. Its driver opens the cursors that a row names, which ends a snapshot.
    """
    found: dict[str, str] = {}
    topics = defaultdict[str, list[Table]](list)
    for table in sorted(tables, key=lambda t: t.oid):
        if table.is_partition or not source.takes(table.schema, table.name):
            continue
        topics[_topic(table).replace(".", "_")].append(table)
        folded = [column.name.lower() for column in table.columns]
        if len(set(folded)) < len(folded):
            twice = sorted({name for name in folded if folded.count(name) > 1})
            found[table.full_name] = (
                f"columns differ by case alone ({', '.join(twice)}), and its first change would fail the "
                "whole source, excluded or not: rename one"
            )
        if cursors := [column.name for column in table.columns if column.type == "refcursor"]:
            found[table.full_name] = (
                f"a value of the type refcursor ({', '.join(cursors)}) would end each snapshot of the whole "
                "source: give the column the type text"
            )
    for first, *others in topics.values():
        for other in others:
            if _topic(other) != _topic(first):
                found[other.full_name] = f"its topic would collide with that of {first.full_name}"
    return found


def _topic(table: Table) -> str:
    return names.topic("", table.schema, table.name)
