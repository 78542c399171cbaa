"""Finds the journey of an event; `Finder` is its entry.

By receipt every part is read by an index or an offset.  By id the tables that have the key are read first,
then the stored parked events, then Kafka from the newest record back.  Each part has a time limit, and one
that does not answer is named.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Self

from services.ops.audit.classify import Kind as RecordKind
from services.ops.findings import Source, Table
from services.ops.journey import database_facts_sql, parked_facts_sql, table_rows_sql
from services.ops.journey.answers import ask_all
from services.ops.journey.evidence import Evidence
from services.ops.journey.kafka_side import (
    OnKafka,
    Search,
    extents_as_text,
    has_id,
    read_receipt,
    search_back,
    search_since,
    with_key,
)
from services.ops.journey.parked_facts_sql import CONTROL, ParkedFacts
from services.ops.journey.steps import passage_of, passages_of_rows
from services.ops.journey.subject import Receipt, subject_of
from services.ops.journey.table_rows_sql import EventRow, TableAnswers
from services.ops.journey.timeline import Journey, Passage
from services.ops.journey.transform_facts import parent_of, transformations
from services.ops.kafka_logs import KafkaLogs, LogRecord
from services.ops.parked.records import Empty, ErrorEvent, Marker, diverted, parked
from services.ops.settled.reader import SettledReader
from shared import wire
from shared.errors import BAD_QUERY, KAFKA_UNAVAILABLE, InfrastructureError, UserError
from shared.kafka_security import Brokers
from shared.landing_columns import SCHEMA
from shared.registry import Snapshot
from shared.registry.transforms import Transform
from shared.transform_totals import Position, Totals

#: Maximum tables, and topics, that are searched for an id without an event type.
MAX_TABLES: Final = 50
#: Maximum acceptances of one id that are followed, the newest ones.
MAX_PASSAGES: Final = 10
#: Seconds for the databases together, and for Kafka.
_DATABASE_SECONDS: Final = 1.9
_KAFKA_SECONDS: Final = 2.0
#: Maximum age in seconds of the log of settled work, which names event types to search.
_LOG_SECONDS: Final = 60.0
#: Seconds of one search on Onramp's topics, and of the search by id.
_TAIL_SECONDS: Final = 0.4
_ID_SECONDS: Final = 0.9
_TRANSFORM_SECONDS: Final = 2.0

#: Whether a caller sees events of this name; None: the name is unknown.
Sees = Callable[[str | None], bool]
#: The topics of an event name, and whether its id is the key on Kafka.
TopicOf = Callable[[str], tuple[str, bool]]


def default_topic(event_name: str) -> tuple[str, bool]:
    """Return the topic of an event type that the registry does not name."""
    return wire.topic_of(event_name), True


def topics_of(snapshot: Callable[[], Snapshot]) -> TopicOf:
    """Return the topics of event types by the registry in force; `snapshot` returns it."""

    def topic_of(event_name: str) -> tuple[str, bool]:
        registry = snapshot()
        event_type = registry.event_types.get(event_name)
        return registry.topic_of(event_name), event_type is None or event_type.key is None

    return topic_of


@dataclass(frozen=True, slots=True)
class Finder:
    """Finds journeys in one installation; for many threads.

    `databases`: DSNs by public name, the default one first.  `control`: the DSN of the control database,
    empty without one.  `event_names`: the registered event types; `transforms`: the registered ones.
    """

    brokers: Brokers
    databases: Mapping[str, str]
    control: str
    topic_of: TopicOf = default_topic
    event_names: Callable[[], Iterable[str]] = tuple
    transforms: Callable[[], Mapping[str, Transform]] = dict
    settled: SettledReader = field(default_factory=SettledReader)

    async def find(self, text: str, event_name: str | None = None, *, sees: Sees | None = None) -> Journey:
        """Return the journey of the id or receipt in `text`.

        `event_name` narrows the search for an id.  Events that the caller does not see are left out, as if
        they did not exist.  Raises `UserError` BAD_QUERY for another text or name.
        """
        subject = subject_of(text)
        if event_name is not None and not wire.EVENT_NAME.fullmatch(event_name):
            raise UserError(BAD_QUERY, "an event type is [a-z][a-z0-9_]{0,62}")
        async with _Search(self) as search:
            if isinstance(subject, Receipt):
                journey = await search.by_receipt(subject)
            else:
                journey = await search.by_id(subject, event_name)
        if sees is None:
            return journey
        return replace(
            journey,
            passages=tuple(p.without_hidden_steps(sees) for p in journey.passages if sees(p.event_name)),
        )


class _Search:
    """One search, with one connection to Kafka; databases that failed once are not queried again."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        self._parts = AsyncExitStack()
        self._began = time.monotonic()
        self._logs: KafkaLogs | None = None
        self._is_opened = False
        self._problem = ""
        self._failures: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._parts.aclose()

    async def _open_kafka(self) -> None:
        """Connect to Kafka at the first call, and read the writer's log of settled work to its end."""
        if self._is_opened:
            return
        self._is_opened = True
        try:
            async with asyncio.timeout(_KAFKA_SECONDS):
                self._logs = await self._parts.enter_async_context(KafkaLogs(self._finder.brokers))
                await self._finder.settled.refresh(self._logs)
        except (InfrastructureError, TimeoutError) as e:
            self._fail_kafka(e)

    # --- by receipt ----------------------------------------------------------------------------

    async def by_receipt(self, receipt: Receipt) -> Journey:
        passage = await self._passage(receipt)
        return Journey(subject=str(receipt), passages=(passage,), unanswered=self._unanswered())

    async def _passage(self, receipt: Receipt) -> Passage:
        """Return the passage of one receipt."""
        await self._open_kafka()
        finder, databases = self._finder, self._reachable()
        calls: dict[str, Callable[[], Any]] = {
            name: partial(database_facts_sql.facts, name, dsn, receipt) for name, dsn in databases.items()
        }
        if finder.control:
            calls[CONTROL] = partial(parked_facts_sql.by_receipt, finder.control, receipt)
        kafka, answers = await asyncio.gather(self.on_kafka(receipt), self._ask(calls))
        stored = answers.pop(CONTROL, ParkedFacts(is_prepared=False))
        evidence = Evidence(
            receipt=receipt,
            databases=list(finder.databases),
            settled=finder.settled,
            kafka=kafka,
            facts=answers,
            failures={n: why for n, why in self._failures.items() if n != CONTROL},
            parked=stored,
            parked_failure=self._failures.get(CONTROL, ""),
            jobs=dict(stored.jobs),
        )
        await self._find_rows(evidence)
        await self._find_on_topics(evidence)
        await self._find_transformed(evidence)
        return passage_of(evidence)

    async def _find_rows(self, evidence: Evidence) -> None:
        """Add the event's rows, and the jobs of its replays."""
        _, possible = evidence.tables()
        for name, facts in evidence.facts.items():
            possible |= {_table(name, a.to or a.destination.removeprefix(f"{name}.")) for a in facts.attempts}
        by_database = {
            name: [table for table in possible if table.database == name and table.name]
            for name in evidence.facts
            if evidence.is_settled(name)
        }
        calls: dict[str, Callable[[], Any]] = {
            name: partial(
                table_rows_sql.rows_of,
                name,
                self._finder.databases[name],
                tables,
                evidence.id,
                evidence.receipt,
            )
            for name, tables in by_database.items()
            if tables
        }
        uuids = {a.job for facts in evidence.facts.values() for a in facts.attempts}
        uuids |= {s.job for facts in evidence.facts.values() for s in facts.staged}
        if (missing := sorted(uuids - evidence.jobs.keys())) and evidence.parked.is_prepared:
            calls[CONTROL] = partial(parked_facts_sql.jobs, self._finder.control, missing)
        answers = await self._ask(calls)
        evidence.jobs |= answers.pop(CONTROL, {})
        evidence.rows = answers
        evidence.failures |= {n: why for n, why in self._failures.items() if n != CONTROL}

    async def _find_on_topics(self, evidence: Evidence) -> None:
        """Search Onramp's topics, if the databases leave a question that these answer."""
        record = evidence.kafka.record
        if record is None or self._logs is None or not evidence.is_passed():
            return
        unsettled = [n for n in self._finder.databases if n in evidence.facts and not evidence.is_settled(n)]
        if names := [*unsettled, *evidence.failures]:
            search = await self._tail(wire.SYSTEM_ERRORS, record, partial(_is_diverted, evidence, names))
            for each in search.records:
                _note_diverted(evidence, diverted(each))
        if _may_be_unstored(evidence):
            search = await self._find_unstored(evidence, record)
            if not search.is_whole and not evidence.unstored:
                evidence.doubts += [t for t in extents_as_text(search.extents.items()) if "oldest" not in t]

    async def _find_unstored(self, evidence: Evidence, record: LogRecord) -> Search:
        """Add the parked events that the control database does not have; return the search."""
        consumed = evidence.parked.consumed
        search = await self._tail(wire.USER_ERRORS, record, partial(_is_parked, evidence), consumed)
        events = (parked(each) for each in search.records)
        evidence.unstored = [event for event in events if event is not None]
        return search

    async def _tail(
        self,
        topic: str,
        record: LogRecord,
        is_wanted: Callable[[LogRecord], bool],
        consumed: Mapping[Source, int] | None = None,
    ) -> Search:
        if self._logs is None:
            return Search()
        try:
            async with asyncio.timeout(_KAFKA_SECONDS):
                return await search_since(
                    self._logs,
                    topic,
                    record.timestamp,
                    is_wanted,
                    until=time.monotonic() + _TAIL_SECONDS,
                    consumed=consumed,
                )
        except (InfrastructureError, TimeoutError) as e:
            self._fail_kafka(e)
            return Search()

    async def _find_transformed(self, evidence: Evidence) -> None:
        """Add the source event of an output, and what transforms have made of the event."""
        if self._logs is None:
            return
        try:
            transforms = self._finder.transforms()
            evidence.parent = parent_of(evidence.kafka.record, transforms)
            async with asyncio.timeout(_TRANSFORM_SECONDS):
                evidence.transformations = await transformations(evidence, transforms, self)
        except (InfrastructureError, TimeoutError) as e:
            why = e.detail.rstrip(".") if isinstance(e, InfrastructureError) else "no answer in time"
            evidence.doubts.append(f"Which transforms have processed it is unknown: {why}.")

    async def rows_with_id(self, id_: str, event_names: Iterable[str]) -> list[EventRow]:
        """Return the rows of an output (`Places.rows_with_id`)."""
        tables = [table for name in event_names for table in self._tables_of(name)]
        answers = await self._ask(self._searches(id_, tables))
        return [row for each in answers.values() for row in each.rows]

    async def records_since(
        self, event_name: str, record: LogRecord, is_wanted: Callable[[LogRecord], bool]
    ) -> Search:
        """Return the records of outputs (`Places.records_since`)."""
        topic, _ = self._finder.topic_of(event_name)
        return await self._tail(topic, record, is_wanted)

    async def find_unstored(self, evidence: Evidence) -> bool:
        """Search parked events on Kafka (`Places.find_unstored`)."""
        record = evidence.kafka.record
        return record is not None and (await self._find_unstored(evidence, record)).is_whole

    async def position(self, transform: str, source: Source) -> Position | None:
        """Return a transform's position (`Places.position`)."""
        if self._logs is None:
            raise InfrastructureError(KAFKA_UNAVAILABLE, self._problem)
        offsets = await self._logs.offsets_of_group(f"{wire.TRANSFORM_GROUP}{transform}", source)
        found = offsets.get(source)
        totals = None if found is None else Totals.of_metadata(found[1])
        return None if found is None or totals is None else Position(found[0], totals)

    async def on_kafka(self, receipt: Receipt) -> OnKafka:
        """Return Kafka's answer about a receipt."""
        if self._logs is not None:
            try:
                async with asyncio.timeout(_KAFKA_SECONDS):
                    return await read_receipt(self._logs, receipt)
            except (InfrastructureError, TimeoutError) as e:
                self._fail_kafka(e)
        return OnKafka(problem=self._problem)

    # --- by id ---------------------------------------------------------------------------------

    async def by_id(self, id_: str, event_name: str | None) -> Journey:
        if event_name is not None or self._finder.settled.age_seconds() > _LOG_SECONDS:
            await self._open_kafka()  # the log names tables and event types
        tables = None if event_name is None else self._tables_of(event_name)
        calls = self._searches(id_, tables)
        if self._finder.control:
            calls[CONTROL] = partial(parked_facts_sql.by_id, self._finder.control, id_)
        answers = await self._ask(calls)
        stored: ParkedFacts = answers.pop(CONTROL, ParkedFacts(is_prepared=False))
        of_databases: dict[str, TableAnswers] = answers
        count = sum(each.tables_with_key for each in of_databases.values())
        too_many = event_name is None and count > MAX_TABLES
        rows = [] if too_many else [row for each in of_databases.values() for row in each.rows]
        names = {event_name} if event_name else {n for n in (*_names(rows), *_names(stored.events)) if n}
        searched = (
            [] if too_many else [_count(count, "table with the key _id was", "tables with the key _id were")]
        )
        receipts = {row.receipt for row in rows if row.receipt} | {e.receipt for e in stored.events}
        search = await self._search_kafka(id_, names or self._names_with_tables(of_databases), receipts)
        if search is None:
            too_many = True
        else:
            receipts |= {Receipt(r.source, r.offset) for r in search.records}
            searched += extents_as_text(search.extents.items())
        newest = sorted(receipts, key=lambda r: (r.source, r.offset), reverse=True)
        passages = [await self._passage(receipt) for receipt in newest[:MAX_PASSAGES]]
        known = [passage for passage in passages if passage.is_known]
        known += passages_of_rows(rows, known)
        return Journey(
            subject=id_,
            passages=tuple(known or passages),
            searched=tuple(searched),
            unknown=tuple(self._doubts(count, len(newest), of_databases, too_many=too_many)),
            needs_type=too_many,
            unanswered=self._unanswered(),
        )

    def _doubts(
        self, tables: int, receipts: int, answers: Mapping[str, TableAnswers], *, too_many: bool
    ) -> Iterable[str]:
        if too_many:
            yield (
                f"More than {MAX_TABLES} tables ({tables}) or topics can have the id: give the event type to "
                "search them."
            )
        if receipts > MAX_PASSAGES:
            yield f"It was accepted {receipts} times; the last {MAX_PASSAGES} are shown."
        for each in answers.values():
            for table, sqlstate in each.failures.items():
                yield f"{table} was not searched: SQLSTATE {sqlstate}."
        for why in self._failures.values():
            yield f"{why.rstrip('.')}: it was not searched."
        if self._problem:
            yield f"{self._problem.rstrip('.')}: Kafka was not searched."

    def _tables_of(self, event_name: str) -> list[Table]:
        """Return the tables that events of this name ever had, and its landing tables."""
        default = next(iter(self._finder.databases), "")
        landing = {Table(name, SCHEMA, event_name) for name in self._finder.databases}
        return sorted(self._finder.settled.tables_ever(event_name, default) | landing)

    def _names_with_tables(self, answers: Mapping[str, TableAnswers]) -> set[str]:
        landing = {t.name for each in answers.values() for t in each.layouts if t.schema == SCHEMA}
        return landing | set(self._finder.event_names()) | self._finder.settled.event_names()

    async def _search_kafka(self, id_: str, names: set[str], receipts: Iterable[Receipt]) -> Search | None:
        """Return the records with this id on the topics of `names`; None if these are too many."""
        topics = dict(map(self._finder.topic_of, names))
        topics |= {receipt.source.topic: topics.get(receipt.source.topic, False) for receipt in receipts}
        if len(topics) > MAX_TABLES:
            return None
        await self._open_kafka()
        if self._logs is None:
            return Search()
        try:
            async with asyncio.timeout(_KAFKA_SECONDS):
                known = await self._logs.named_topics(*topics)
                return await search_back(
                    self._logs,
                    {name: with_key(topic, id_) if topics[name] else topic for name, topic in known.items()},
                    partial(has_id, id_),
                    until=time.monotonic() + _ID_SECONDS,
                )
        except (InfrastructureError, TimeoutError) as e:
            self._fail_kafka(e)
            return Search()

    def _searches(self, id_: str, tables: Sequence[Table] | None) -> dict[str, Callable[[], Any]]:
        """Return the search of each database for the rows with an id, in `tables` or in all."""
        return {
            name: partial(
                table_rows_sql.rows_by_id,
                name,
                dsn,
                id_,
                tables if tables is None else [t for t in tables if t.database == name],
                MAX_TABLES,
            )
            for name, dsn in self._reachable().items()
        }

    # --- parts -----------------------------------------------------------------------------------

    def _reachable(self) -> dict[str, str]:
        return {name: dsn for name, dsn in self._finder.databases.items() if name not in self._failures}

    async def _ask(self, calls: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
        """Return the answers; databases that failed are recorded, and not queried again."""
        calls = {name: call for name, call in calls.items() if name not in self._failures}
        answers = await ask_all(calls, _DATABASE_SECONDS)
        self._failures |= answers.failures
        return answers.values

    def _fail_kafka(self, error: BaseException) -> None:
        detail = error.detail if isinstance(error, InfrastructureError) else ""
        self._problem = (
            detail or f"Kafka at {self._finder.brokers} did not answer within {_KAFKA_SECONDS:g} s"
        )
        self._logs = None  # its clients are closed with the search

    def _unanswered(self) -> tuple[str, ...]:
        return (*self._failures.values(), *([self._problem] if self._problem else ()))


def _is_diverted(evidence: Evidence, names: Sequence[str], record: LogRecord) -> bool:
    """Return whether a record of `onramp.system_errors` is the event's, or closes a range with its offset."""
    match diverted(record):
        case ErrorEvent() as event:
            place = event.source, event.offset
            return place == tuple(evidence.receipt) and event.destination in names
        case Marker() as marker:
            return _covers(marker, evidence) and marker.database in names
        case Empty(markers):
            return any(_covers(marker, evidence) and marker.database in names for marker in markers)
    return False


def _note_diverted(evidence: Evidence, record: ErrorEvent | Marker | Empty | None) -> None:
    match record:
        case ErrorEvent() as event:
            evidence.diverted.setdefault(event.destination, event)
        case Marker() as marker:
            evidence.diverted_digests.setdefault(marker.database, marker.digest)
        case Empty(markers):
            evidence.without_events |= {m.database for m in markers if _covers(m, evidence)}


def _covers(marker: Marker, evidence: Evidence) -> bool:
    receipt = evidence.receipt
    is_of = marker.source == receipt.source and marker.topic_id in evidence.generations()
    return is_of and marker.start <= receipt.offset < marker.end


def _is_parked(evidence: Evidence, record: LogRecord) -> bool:
    receipt = evidence.receipt
    if not (record.key or b"").startswith(f"{receipt}/".encode()):
        return False
    event = parked(record)
    return event is not None and (event.source, event.offset) == (receipt.source, receipt.offset)


def _may_be_unstored(evidence: Evidence) -> bool:
    """Return whether the event may be parked and not stored: a settled destination has no other outcome."""
    event = evidence.event
    if event is None or event.kind is RecordKind.FILTERED or evidence.stored():
        return False
    if event.kind is not RecordKind.ENVELOPE:
        return event.kind is not RecordKind.PROBE
    sure, _ = evidence.tables()
    with_rows = {row.table for answers in evidence.rows.values() for row in answers.rows}
    waiting = {w.destination for facts in evidence.facts.values() for w in facts.waiting}
    return any(
        evidence.is_settled(t.database) and t not in with_rows and t.destination not in waiting for t in sure
    )


def _names(events: Iterable[Any]) -> set[str | None]:
    return {event.event_name for event in events}


def _table(database: str, destination: str) -> Table:
    schema, _, name = destination.partition(".")
    return Table(database, schema, name)


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many} searched."
