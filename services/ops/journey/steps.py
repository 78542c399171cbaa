"""Turns the evidence about a receipt into steps, each with the part that says so."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from services.ops.audit.classify import Kind as RecordKind
from services.ops.findings import Table
from services.ops.journey.database_facts_sql import InWaiting
from services.ops.journey.evidence import Evidence, as_lsn, commit_of
from services.ops.journey.parked_steps import ParkedSteps
from services.ops.journey.table_rows_sql import EventRow, TableAnswers
from services.ops.journey.timeline import Kind, Passage, Step
from services.ops.journey.transform_steps import parent_step, transform_steps
from services.ops.times import as_moment, as_time
from shared import change_table, wire
from shared.backoff import MAX_SECONDS
from shared.errors import TABLE as FAULTS
from shared.transform_replay import transform_of

_RETRIES: Final = f"the writer tries again by itself, after {MAX_SECONDS:.0f} seconds at most"


def passage_of(evidence: Evidence) -> Passage:
    """Return the steps of one receipt."""
    return _Steps(evidence).passage()


class _Steps:
    """Builds the steps of one receipt, destination by destination."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._receipt = evidence.receipt
        self._unknown: list[str] = list(evidence.doubts)
        self._outcomes: list[Step] = []

    def passage(self) -> Passage:
        evidence = self._evidence
        steps = [*self._accepted()]
        if (of_parent := parent_step(evidence)) is not None:
            steps.append(of_parent)
        event = evidence.event
        if event is not None and event.kind is RecordKind.FILTERED:
            steps += self._last([self._filtered()])
        else:
            steps += self._destinations()
            steps += [step for each in transform_steps(evidence) for step in self._last([each])]
        self._note_gaps()
        is_known = evidence.kafka.record is not None or bool(self._outcomes)
        return Passage(
            receipt=self._receipt,
            id=evidence.id,
            event_name=evidence.event_name,
            steps=tuple(steps) if is_known else (),
            outcomes=tuple(self._outcomes),
            unknown=tuple(dict.fromkeys(self._unknown)),
            is_known=is_known,
        )

    # --- Kafka -------------------------------------------------------------------------------

    def _accepted(self) -> Iterator[Step]:
        record, kafka = self._evidence.kafka.record, self._evidence.kafka
        if record is not None:
            received = record.headers.get(wire.HEADER_RECEIVED_AT)
            producer = record.headers.get(wire.HEADER_PRODUCER, b"").decode(errors="replace")
            at = as_time(received.decode(errors="replace")) if received else None
            yield self._step(
                Kind.ACCEPTED, _accepted_by(producer, bool(received)), at=at or as_moment(record.timestamp),
                facts={"key": producer or None, "by_gateway": bool(received)},
            )  # fmt: skip
            return
        if kafka.problem:
            self._unknown.append(f"{kafka.problem.rstrip('.')}: whether Kafka has the record is unknown.")
        elif kafka.span is None:
            self._unknown.append(f"Kafka has no partition {self._receipt.source}.")
        elif self._receipt.offset >= kafka.span[1]:
            self._unknown.append(f"{self._receipt.source} on Kafka ends before offset {kafka.span[1]}.")
        elif self._receipt.offset < kafka.span[0]:
            self._unknown.append(
                f"The record is no longer on Kafka, whose first offset of {self._receipt.source} is "
                f"{kafka.span[0]}: sender and headers are unknown."
            )
        else:
            self._unknown.append(
                "Kafka has no record at this offset: compaction or a transaction left a hole."
            )
        times = [as_time(e.reason.get("received_at")) for e in self._evidence.stored()]
        times += [
            row.received_at for database in self._evidence.rows for row in self._evidence.own_rows(database)
        ]
        if at := next((time for time in times if time), None):
            yield self._step(Kind.ACCEPTED, "was accepted", at=at)

    def _filtered(self) -> Step:
        if not self._evidence.is_passed():
            return self._not_settled(None)
        return self._step(
            Kind.FILTERED,
            f"was filtered: its header `{wire.HEADER_CONTEXT}` does not mark it for the writer",
        )

    # --- destinations ------------------------------------------------------------------------

    def _destinations(self) -> Iterator[Step]:
        """Yield the steps of each destination: those with evidence first, then those that are expected."""
        evidence = self._evidence
        if evidence.is_beyond():
            return
        parked = ParkedSteps(evidence).by_destination()
        if evidence.event is not None and not evidence.is_passed():
            yield from self._before_writer(parked)
            return
        for steps in parked.values():
            yield from self._last(steps)
        waiting = self._waiting()
        for destination, step in waiting.items():
            if destination not in parked:
                yield from self._last([step])
        sure, possible = evidence.tables()
        landed = {step.destination for step in self._outcomes}
        for table in sorted(possible):
            if str(table) not in landed:
                yield from self._last([*self._expected(table, is_sure=table in sure)])
        if not self._outcomes:
            yield from self._last(self._without_destination())

    def _before_writer(self, parked: Mapping[str, list[Step]]) -> Iterator[Step]:
        """Yield the steps of an event that the writer has not reached; a transform may have parked it."""
        yield from self._last([self._not_settled(None)])  # its routes are those of the time then
        for destination, steps in parked.items():
            if transform_of(destination) is not None:
                yield from self._last(steps)

    def _last(self, steps: list[Step]) -> list[Step]:
        """Note the last of a destination's steps as its outcome."""
        if steps:
            self._outcomes.append(next((s for s in reversed(steps) if not s.facts.get("is_note")), steps[-1]))
        return steps

    def _without_destination(self) -> list[Step]:
        event = self._evidence.event
        if event is None:
            if self._evidence.is_passed():
                self._unknown.append("It was settled: filtered, a duplicate, or its row was deleted since.")
            return []
        if event.kind is RecordKind.UNROUTABLE:
            text = (
                "is neither an envelope nor a packet, and is not among the parked events that were searched"
            )
            return [self._step(Kind.UNKNOWN, text)]
        return [self._step(Kind.UNKNOWN, "was settled; its tables are unknown")]

    def _waiting(self) -> dict[str, Step]:
        """Return the events that wait in their databases, behind a hold."""
        ids, steps = self._evidence.generations(), dict[str, Step]()
        for database, facts in self._evidence.facts.items():
            for row in facts.waiting:
                if row.topic_id in ids:
                    destination = f"{database}.{row.destination}"
                    steps[destination] = self._waiting_step(destination, row)
        return steps

    def _waiting_step(self, destination: str, row: InWaiting) -> Step:
        since = f" since {row.hold_since:%Y-%m-%d %H:%M:%S} UTC" if row.hold_since else ""
        sqlstate = f", SQLSTATE {row.sqlstate}" if row.sqlstate else ""
        fault = FAULTS.get(row.code)
        why, ends = (fault.title.rstrip(".") if fault else row.code), _RETRIES
        if row.state == "paused":
            why = f"the type {row.event_type} is paused{since}"
            ends = f"an operator resumes the type: `onramp types resume {row.event_type}`"
        elif row.state == "blocked":
            why = f"the table is blocked{since}{sqlstate}"
        elif row.state == "dead_lettered":
            why, ends = "an operator has dead-lettered it", "the writer parks it by itself"
        elif row.state in {None, "resumed"}:
            why, ends = "it may land now", "the writer lands it by itself"
        return self._step(
            Kind.WAITING,
            f"waits for {destination}: {why}",
            at=row.since,
            destination=destination,
            ends=ends,
            facts={"hold": row.hold, "state": row.state, "code": row.code},
        )

    # --- expected tables ---------------------------------------------------------------------

    def _expected(self, table: Table, *, is_sure: bool) -> Iterator[Step]:
        """Yield the step of a table without a parked or waiting event."""
        evidence, database = self._evidence, table.database
        if evidence.settled.is_retired(database):
            yield self._unknown_step(table, f"the database {database} is retired", is_sure=is_sure)
        elif database not in evidence.databases:
            yield self._unknown_step(
                table, f"the database {database} is not configured here", is_sure=is_sure
            )
        elif database in evidence.failures:
            if (event := evidence.diverted.get(database)) is not None:
                since = as_moment(event.timestamp)
                text = f"was diverted for {table}, because {database} was unreachable: landed since, or waits"
                yield self._step(Kind.UNKNOWN, text, at=since, destination=str(table))
            else:
                yield self._unknown_step(table, evidence.failures[database], is_sure=is_sure)
        elif not evidence.is_settled(database):
            if is_sure:
                yield self._unsettled(table)
            elif evidence.event is not None:
                self._unknown.append(f"Its routes are unknown: whether it waits for {table} is unknown.")
        else:
            yield from self._settled(table, is_sure=is_sure)

    def _unsettled(self, table: Table) -> Step:
        """Return the step of an event that its database has not settled."""
        evidence, database = self._evidence, table.database
        if not evidence.is_committed():
            return self._not_settled(table)
        event, halt = evidence.diverted.get(database), evidence.facts[database].halt
        why, ends = f"the database {database} was unreachable", f"{_RETRIES}, when the database is reachable"
        if halt:
            why = f"the database {database} is halted since {halt[1]:%Y-%m-%d %H:%M:%S} UTC: {halt[0]}"
            ends = "an operator resolves the halt: `onramp databases list`"
        return self._step(
            Kind.WAITING,
            f"waits for {table} on {wire.SYSTEM_ERRORS}: {why.rstrip('.')}",
            at=as_moment(event.timestamp) if event else None,
            destination=str(table),
            ends=ends,
        )

    def _not_settled(self, table: Table | None) -> Step:
        """Return the step of an event that the writer has not reached."""
        evidence = self._evidence
        offsets = [evidence.next_offset(d) for d in ([table.database] if table else evidence.facts)]
        committed = evidence.kafka.committed
        reached = max((o for o in (*offsets, committed) if o is not None), default=None)
        first = evidence.kafka.span[0] if evidence.kafka.span else 0
        before = self._receipt.offset - max(reached if reached is not None else first, first)
        ends = f"the writer reaches it, after {max(before, 0)} other records of the partition"
        text = f"is on Kafka and not settled{f' for {table}' if table else ''} yet"
        if halt := evidence.settled.halt_of(self._receipt.source):
            text += f": the partition is halted since {halt.since}: {halt.reason.rstrip('.')}"
            ends = "an operator answers the halt: `onramp partitions list`"
        elif table and (of_database := evidence.facts[table.database].halt):
            text += f": the database is halted since {of_database[1]:%Y-%m-%d %H:%M:%S} UTC: {of_database[0]}"
            ends = "an operator resolves the halt: `onramp databases list`"
        named = str(table) if table else None
        return self._step(
            Kind.NOT_SETTLED, text, destination=named, ends=ends, facts={"records_before": before}
        )

    def _settled(self, table: Table, *, is_sure: bool) -> Iterator[Step]:
        """Yield the step of an event that its database has settled: by its row."""
        answers = self._evidence.rows.get(table.database, TableAnswers())
        layout = answers.layouts.get(table)
        if layout is None:
            reason = self._evidence.failures.get(table.database, f"{table} was not searched")
            yield self._unknown_step(table, reason, is_sure=is_sure)
        elif table in answers.failures:
            reason = f"{table} did not answer in time, or is locked (SQLSTATE {answers.failures[table]})"
            yield self._unknown_step(table, reason, is_sure=is_sure)
        elif not layout.exists:
            yield from self._absent(table, "the table does not exist now", is_sure=is_sure)
        elif not layout.is_readable:
            yield self._unknown_step(table, f"this role may not read {table}", is_sure=is_sure)
        elif table.schema == change_table.SCHEMA:
            yield from self._change(table, answers, is_sure=is_sure)
        elif rows := [row for row in answers.rows if row.table == table]:
            yield self._landed(table, rows)
        elif not layout.has_receipt and not (layout.has_key and self._evidence.id):
            reason = f"{table} stores no receipts, so landed and duplicate cannot be distinguished"
            yield self._unknown_step(table, reason, is_sure=is_sure, settled="was settled for")
        else:
            yield from self._absent(table, "its row was deleted or changed since", is_sure=is_sure)

    def _landed(self, table: Table, rows: list[EventRow]) -> Step:
        own = next((row for row in rows if row.receipt == self._receipt), None)
        id_ = self._evidence.id
        if own is not None and (id_ is None or own.id in {None, id_}):
            return self._step(Kind.LANDED, f"landed in {table}", destination=str(table), sql=own.sql)
        other = next((row for row in rows if row.id == id_), rows[0])
        if other.receipt is None:
            text = f"has a row with its id in {table}, which stores no receipts: landed, or a duplicate"
            self._unknown.append(f"{table} stores no receipts: landed and duplicate cannot be distinguished.")
            return self._step(Kind.UNKNOWN, text, destination=str(table), sql=other.sql)
        if other.id != id_:
            text = f"has no row in {table}; the row with its receipt is of another generation of the topic"
            return self._step(Kind.ABSENT, text, destination=str(table), sql=other.sql)
        return self._step(
            Kind.DUPLICATE,
            f"is a duplicate of {other.receipt}, whose row is in {table}",
            destination=str(table),
            sql=other.sql,
            facts={"of": str(other.receipt)},
        )

    def _absent(self, table: Table, why: str, *, is_sure: bool) -> Iterator[Step]:
        if is_sure:
            text = f"was settled for {table} and has no row there: {why}"
            ends = "`onramp audit --deep` says whether it was lost"
            yield self._step(Kind.ABSENT, text, destination=str(table), ends=ends)
        elif self._evidence.event is not None:
            self._unknown.append(
                f"The routes of that time are unknown: whether it went to {table} is unknown."
            )

    def _change(self, table: Table, answers: TableAnswers, *, is_sure: bool) -> Iterator[Step]:
        """Yield the steps of a source's change: landed, and merged."""
        event = self._evidence.event
        sent = commit_of(event.document) if event else None
        changes = [c for c in answers.changes.get(table, ()) if sent is None or c.lsn in {None, sent}]
        merges = answers.merges.get(table, [])
        for change in changes[:1]:
            lsn, commit = change.lsn, change.commit_lsn
            at = f", commit LSN {as_lsn(commit)}" if commit else ""
            if lsn and not commit:
                at = f", LSN {as_lsn(lsn)}"
                self._unknown.append(
                    "The transaction's END has not landed or is trimmed: its commit LSN is unknown."
                )
            yield self._step(
                Kind.LANDED, f"landed in {table}{at}", destination=str(table), sql=change.sql,
                facts={"lsn": lsn and as_lsn(lsn), "commit_lsn": commit and as_lsn(commit), "op": change.op},
            )  # fmt: skip
        trimmed = any(m.trimmed_to is not None and self._receipt.offset < m.trimmed_to for m in merges)
        if not changes and trimmed:
            facts = {"lsn": sent and as_lsn(sent)}
            text = f"landed in {table} and was trimmed after its merge"
            yield self._step(Kind.LANDED, text, destination=str(table), facts=facts)
        elif not changes:
            yield from self._absent(table, "its row was deleted since", is_sure=is_sure)
            return
        for merge in merges:
            yield self._merged(merge, table.database)

    def _merged(self, merge: Any, database: str) -> Step:
        name = f"the public table of {merge.schema}.{merge.table}"
        if self._receipt.offset < merge.next_offset:
            return self._step(Kind.LANDED, f"was merged into {name}", destination=f"{database}: {name}",
                              facts={"is_note": True})  # fmt: skip
        why = f": the table is suspended: {merge.reason}" if merge.suspended_since else ""
        return self._step(
            Kind.WAITING, f"is not merged into {name} yet{why}", at=merge.suspended_since,
            destination=f"{database}: {name}", ends="the merger reaches it", facts={"is_note": True},
        )  # fmt: skip

    # --- the rest ----------------------------------------------------------------------------

    def _unknown_step(self, table: Table, reason: str, *, is_sure: bool, settled: str = "") -> Step:
        self._unknown.append(f"{reason.rstrip('.')}: the outcome for {table} is unknown.")
        verb = settled or ("goes to" if is_sure else "may have gone to")
        return self._step(Kind.UNKNOWN, f"{verb} {table}, with an unknown outcome", destination=str(table))

    def _note_gaps(self) -> None:
        evidence = self._evidence
        if evidence.parked_failure:
            self._unknown.append(
                f"{evidence.parked_failure.rstrip('.')}: decisions about parked events are unknown."
            )
        self._unknown += [f"{why.rstrip('.')}." for why in evidence.failures.values()]
        if evidence.kafka.topic_id is None and len(evidence.generations()) > 1:
            self._unknown.append("The topic had several generations, and the receipt may be of any of them.")

    def _step(self, kind: Kind, text: str, **more: Any) -> Step:
        return Step(kind, text, receipt=self._receipt, **more)


def _accepted_by(producer: str, by_gateway: bool) -> str:
    if not by_gateway:
        return "was put on Kafka by a client, past the gateway"
    if producer in {"", "anonymous"}:
        return "was accepted by the gateway without a key"
    return f"was accepted by the gateway with the key {producer}"


def passages_of_rows(rows: Iterable[EventRow], passages: Sequence[Passage]) -> list[Passage]:
    """Return passages for rows that no passage shows: without a receipt, or with one that no part knows."""
    shown = {step.destination for passage in passages for step in passage.outcomes}
    known = {passage.receipt for passage in passages}
    alone: list[Passage] = []
    for row in rows:
        if row.receipt in known if row.receipt else str(row.table) in shown:
            continue
        why = "no ledger knows its receipt" if row.receipt else "the table stores no receipts"
        step = Step(
            Kind.LANDED,
            f"has a row in {row.table}: {why}",
            receipt=row.receipt,
            destination=str(row.table),
            sql=row.sql,
        )
        alone.append(
            Passage(
                receipt=row.receipt, id=row.id, event_name=row.event_name, steps=(step,), outcomes=(step,)
            )
        )
    return alone
