"""Evidence about one receipt, and what follows from it: identity, topic generation, expected tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from services.ops.audit.classify import Event, Kind, classify
from services.ops.findings import Table
from services.ops.journey.database_facts_sql import DatabaseFacts
from services.ops.journey.kafka_side import OnKafka
from services.ops.journey.parked_facts_sql import JobFacts, ParkedFacts, StoredParked
from services.ops.journey.subject import Receipt
from services.ops.journey.table_rows_sql import EventRow, TableAnswers
from services.ops.parked.parked_events import NO_TOPIC_ID
from services.ops.parked.records import ErrorEvent
from services.ops.settled.reader import SettledReader
from shared import change_table, wire
from shared.transform_totals import Position

#: Kinds of records whose `metadata` has the event's id.
_WITH_ID: Final = frozenset({Kind.ENVELOPE, Kind.PROBE, Kind.PACKET})


class Parent(NamedTuple):
    """The event that an output is of, and the transform's name@digest.

    `event_name`: of the event, if the transform is registered.
    """

    receipt: Receipt
    version: str
    event_name: str | None


class Output(NamedTuple):
    """An output of a transform."""

    id: str
    event_name: str | None
    receipt: Receipt | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformation:
    """The facts of one transform about its source event; `event_types`: of its outputs."""

    transform: str
    event_types: Sequence[str]
    #: In the event's partition; None if it has none.
    position: Position | None = None
    outputs: Sequence[Output] = ()
    #: The version (name@digest) of the outputs; empty if Kafka has them no more.
    version: str = ""
    #: Whether every output would have been found, and a parked event.
    is_whole: bool = False

    def seems_dropped(self, offset: int) -> bool:
        """Return whether the event at `offset` was processed without an output."""
        position = self.position
        return not self.outputs and position is not None and position.totals.first <= offset < position.next


@dataclass(slots=True, kw_only=True)
class Evidence:
    """The answers of Kafka and of the databases about one receipt."""

    receipt: Receipt
    #: The public names of the configured databases, the default one first.
    databases: Sequence[str]
    settled: SettledReader
    kafka: OnKafka = field(default_factory=OnKafka)
    facts: Mapping[str, DatabaseFacts] = field(default_factory=dict)
    #: By database: why it did not answer.
    failures: dict[str, str] = field(default_factory=dict)
    parked: ParkedFacts = field(default_factory=ParkedFacts)
    #: Why the control database did not answer.
    parked_failure: str = ""
    #: By database: its tables and the event's rows.
    rows: dict[str, TableAnswers] = field(default_factory=dict)
    jobs: dict[str, JobFacts] = field(default_factory=dict)
    #: Events on `onramp.user_errors` that are not stored yet.
    unstored: list[ErrorEvent] = field(default_factory=list)
    #: Events on `onramp.system_errors`, by database.
    diverted: dict[str, ErrorEvent] = field(default_factory=dict)
    #: By database: the routes under which a diverted range with the offset was sorted.
    diverted_digests: dict[str, str] = field(default_factory=dict)
    #: Databases for which a diverted range with the offset has no event.
    without_events: set[str] = field(default_factory=set)
    #: The source event, if this event is an output.
    parent: Parent | None = None
    transformations: Sequence[Transformation] = ()
    #: Sentences about topics that were not searched whole.
    doubts: list[str] = field(default_factory=list)
    #: The classified record, or None if Kafka did not return it.
    event: Event | None = field(init=False)

    def __post_init__(self) -> None:
        """Classify the record once: its value is parsed for that, and each step needs it."""
        record = self.kafka.record
        self.event = None if record is None else classify(record, self.receipt.source.topic)

    @property
    def id(self) -> str | None:
        """Return the event's id, by the first part that knows it."""
        event = self.event
        if event is not None and event.kind in _WITH_ID and (named := _metadata(event.document, "id")):
            return named
        rows = (
            row.id for answers in self.rows.values() for row in answers.rows if row.receipt == self.receipt
        )
        reasons = (e.reason.get("id") for e in self.unstored)
        return next((i for i in (*(e.event_id for e in self.stored()), *rows, *reasons) if i), None)

    @property
    def event_name(self) -> str | None:
        """Return the event's name, by the first part that knows it."""
        event = self.event
        if event is not None and event.kind in _WITH_ID and isinstance(event.document, dict):
            name = event.document.get("event_name")
            if isinstance(name, str) and wire.EVENT_NAME.fullmatch(name):
                return name
        rows = (r.event_name for a in self.rows.values() for r in a.rows if r.receipt == self.receipt)
        reasons = (e.reason.get("event_name") for e in self.unstored)
        return next((n for n in (*(e.event_name for e in self.stored()), *rows, *reasons) if n), None)

    def generations(self) -> list[str]:
        """Return the ids of the topic's generations that the receipt can be of: those of Kafka's log.

        Without Kafka's answer these are all that a ledger or a parked event knows.
        """
        if self.kafka.topic_id is not None:
            return self.settled.generations(self.kafka.topic_id, self.receipt.source.partition)
        settled = {row.topic_id for facts in self.facts.values() for row in facts.ledger}
        return sorted(settled | {event.topic_id for event in self.parked.events if event.topic_id})

    def stored(self) -> list[StoredParked]:
        """Return the stored parked events of these generations."""
        ids = {*self.generations(), NO_TOPIC_ID}
        return [event for event in self.parked.events if event.topic_id in ids]

    def own_rows(self, database: str) -> list[EventRow]:
        """Return the rows of a database that have the receipt."""
        answers = self.rows.get(database, TableAnswers())
        return [row for row in answers.rows if row.receipt == self.receipt]

    def next_offset(self, database: str) -> int | None:
        """Return the next unsettled offset of the partition in a database, or None if it has none."""
        ids = self.generations()
        rows = self.facts[database].ledger if database in self.facts else ()
        return max((row.next_offset for row in rows if row.topic_id in ids), default=None)

    def is_settled(self, database: str) -> bool:
        """Return whether a database has settled the offset."""
        next_offset = self.next_offset(database)
        return next_offset is not None and self.receipt.offset < next_offset

    def is_passed(self) -> bool:
        """Return whether the writer has passed the offset: it is settled or diverted in each database."""
        return self.is_committed() or any(map(self.is_settled, self.facts))

    def is_beyond(self) -> bool:
        """Return whether Kafka's partition ends before the offset: no part can know it."""
        span = self.kafka.span
        return span is not None and self.receipt.offset >= span[1]

    def is_committed(self) -> bool:
        """Return whether the writer's group is past the offset: what is not settled then is diverted."""
        committed = self.kafka.committed
        return committed is not None and self.receipt.offset < committed

    def tables(self) -> tuple[set[Table], set[Table]]:
        """Return the event's tables, and its possible tables: more if its routes are unknown."""
        sure, possible = self._tables()
        none = {table for table in possible if table.database in self.without_events}
        return sure - none, possible - none

    def _tables(self) -> tuple[set[Table], set[Table]]:
        event = self.event
        if event is None:
            return set(), self._tables_of_partition()
        if event.kind is Kind.CHANGE:
            sure = self._tables_of_change(event.document)
            return sure, sure
        if event.kind is Kind.PACKET:
            sure = set(_tables_of_packet(event.document))
            return sure, sure
        if event.kind in {Kind.ENVELOPE, Kind.PROBE}:
            return self._routed(event.name)
        return set(), set()

    def _routed(self, event_name: str) -> tuple[set[Table], set[Table]]:
        sure, possible = set[Table](), set[Table]()
        default = next(iter(self.databases), "")
        known = {name: self._digests(name) for name in self.facts}
        for name, digest in self.diverted_digests.items():
            known[name] = known.get(name) or {digest}
        every = {digest for digests in known.values() for digest in digests}
        # A database that did not answer has the same routes as the others, as far as they have settled it.
        silent = {name: every for name in self.databases if name not in known}
        for database, digests in (known | silent).items():
            choices = self.settled.tables(event_name, digests or every, default)
            own = [{r.table for r in choice if r.table.database == database} for choice in choices]
            sure |= set.intersection(*own)
            possible |= set.union(*own)
        elsewhere = [
            {r.table for r in choice if r.table.database not in self.databases}
            for choice in self.settled.tables(event_name, every, default)
        ]
        return sure | set.intersection(*elsewhere), possible | set.union(*elsewhere)

    def _digests(self, database: str) -> set[str]:
        ids = self.generations()
        return {row.digest for row in self.facts[database].ledger if row.topic_id in ids and row.digest}

    def _tables_of_change(self, document: Any) -> set[Table]:
        source = source_of(self.receipt)
        match document:
            case {"source": {"schema": str(schema), "table": str(table)}, "op": _}:
                name = change_table.name_of(source, schema, table)
            case _:
                name = change_table.transactions_of(source)
        return {
            Table(database, change_table.SCHEMA, name)
            for database in self.settled.databases_of_changes(self.receipt.source.topic)
        }

    def _tables_of_partition(self) -> set[Table]:
        """Return all tables that events of the partition went to."""
        return {
            Table(database, schema, name)
            for database, facts in self.facts.items()
            for schema, _, name in (each.partition(".") for each in facts.tables)
        }


def source_of(receipt: Receipt) -> str:
    """Return the source of a topic of changes: its name has no hyphen."""
    return receipt.source.topic.removeprefix(wire.CHANGE_TOPIC_PREFIX).partition("-")[0]


def commit_of(document: Any) -> int | None:
    """Return the LSN of a change."""
    match document:
        case {"source": {"lsn": int(lsn)}}:
            return lsn
    return None


def as_lsn(position: int) -> str:
    """Return an LSN as Postgres prints it."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def _metadata(document: Any, name: str) -> str | None:
    match document:
        case {"metadata": {**members}}:
            value = members.get(name)
            return value if isinstance(value, str) else None
    return None


def _tables_of_packet(document: Any) -> list[Table]:
    """Return the tables that a packet names, as far as they can be read."""
    match document:
        case {"pipeline_context": {"destinations": [*destinations]}}:
            named = [each for each in destinations if isinstance(each, dict)]
        case _:
            return []
    tables = []
    for each in named:
        names = (each.get("vanity") or each.get("database"), each.get("schema"), each.get("table"))
        if all(isinstance(name, str) for name in names):
            tables.append(Table(*map(str, names)))
    return list(dict.fromkeys(tables))
