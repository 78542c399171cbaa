"""The steps of a parked event: parking, replays, and decisions of operators."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from services.ops.journey.database_facts_sql import Attempt, Staged
from services.ops.journey.evidence import Evidence
from services.ops.journey.parked_facts_sql import StoredParked
from services.ops.journey.table_rows_sql import TableAnswers
from services.ops.journey.timeline import Kind, Step
from services.ops.parked.outcome_sentence import sentence_of
from services.ops.times import as_moment
from shared import wire
from shared.transform_replay import transform_of


class ParkedSteps:
    """Builds the steps of the destinations that an event was parked for."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence

    def by_destination(self) -> dict[str, list[Step]]:
        """Return the steps of each destination, as it was parked."""
        return {
            destination: [step, *self._replays(destination, self._evidence.stored())]
            for destination, step in self._parked().items()
        }

    def _parked(self) -> dict[str, Step]:
        """Return the step of parking for each destination, by the first part that has the event."""
        evidence, ids = self._evidence, self._evidence.generations()
        steps: dict[str, Step] = {}
        for stored in evidence.stored():
            facts = {"event": stored.number, "group": stored.group, "code": stored.reason.get("code")}
            steps[stored.destination] = self._parked_step(
                stored.destination, stored.reason, stored.parked_at, facts
            )
        in_outbox = [row for of_database in evidence.facts.values() for row in of_database.outbox]
        for row in in_outbox:
            if row.topic_id in ids and row.destination not in steps:
                facts = {"code": row.reason.get("code"), "on_its_way": True}
                steps[row.destination] = self._parked_step(row.destination, row.reason, None, facts)
        attempts = [each for of_database in evidence.facts.values() for each in of_database.attempts]
        for attempt in attempts:
            if attempt.topic_id in ids and attempt.destination not in steps:
                named = _named(attempt.destination)
                text = f"was parked for {named}; no part that answers has the cause"
                steps[attempt.destination] = self._step(Kind.PARKED, text, destination=named)
        for event in evidence.unstored:
            if event.destination not in steps:
                facts, at = {"code": event.code, "on_its_way": True}, as_moment(event.timestamp)
                steps[event.destination] = self._parked_step(event.destination, event.reason, at, facts)
        return steps

    def _parked_step(self, destination: str, reason: Any, at: datetime | None, facts: dict[str, Any]) -> Step:
        why = sentence_of(reason).rstrip(".")
        return self._step(
            Kind.PARKED,
            f"was parked for {_named(destination)}: {why}",
            at=at,
            destination=_named(destination),
            ends="an operator replays or discards it: `onramp errors`",
            facts=facts,
        )

    def _replays(self, destination: str, stored: list[StoredParked]) -> Iterator[Step]:
        """Yield replays and decisions about a parked event, in their order."""
        ids, landed = self._evidence.generations(), False
        for database, facts in self._evidence.facts.items():
            for attempt in facts.attempts:
                is_own = attempt.topic_id in ids and attempt.destination == destination
                if is_own and attempt.outcome != "sorted":
                    landed |= attempt.outcome != "parked"
                    yield self._attempt(database, attempt)
            for staged in facts.staged:
                if staged.topic_id in ids and staged.destination == destination:
                    yield self._staged(staged)
        for event in stored:
            if event.destination == destination and not landed:
                yield from self._decision(event)

    def _attempt(self, database: str, attempt: Attempt) -> Step:
        job = self._job(attempt.job)
        verb = "fixed and replayed" if attempt.is_edited else "replayed"
        by = f"was {verb} {job['text']}"
        facts = {"job": job["number"], "actor": job["actor"], "is_fixed": attempt.is_edited}
        if attempt.outcome == "parked":
            why = sentence_of(attempt.reason or {}).rstrip(".")
            return self._step(
                Kind.REPLAY_FAILED, f"{by}, which failed: {why}", at=attempt.at,
                destination=_named(attempt.destination), facts=facts,
            )  # fmt: skip
        table = self._landed_in(database, attempt)
        text = f"{by}: landed in {table}"
        if attempt.outcome == "duplicate":
            text = f"{by}: its row was in {table} already"
        return self._step(
            Kind.REPLAYED,
            text,
            at=attempt.at,
            destination=str(table),
            sql=self._sql(database, table),
            facts=facts | {"is_duplicate": attempt.outcome == "duplicate"},
        )

    def _landed_in(self, database: str, attempt: Attempt) -> str:
        if attempt.to:
            return f"{database}.{attempt.to}"
        if not wire.is_refused(attempt.destination):
            return attempt.destination
        row = next(iter(self._evidence.own_rows(database)), None)
        return str(row.table) if row else f"a table of {database}"

    def _staged(self, staged: Staged) -> Step:
        job = self._job(staged.job)
        return self._step(
            Kind.REPLAYING,
            f"is staged for a replay {job['text']}",
            at=staged.at,
            destination=_named(staged.destination),
            ends="the writer takes it by itself",
            facts={"job": job["number"], "actor": job["actor"]},
        )

    def _decision(self, event: StoredParked) -> Iterator[Step]:
        """Yield the last decision that the control database stores."""
        job = self._job(event.job)
        facts = {"job": job["number"], "actor": job["actor"], "reason": job["reason"]}
        named = _named(event.destination)
        match event.state:
            case "discarded":
                kind, text = Kind.DISCARDED, f"was discarded {job['text']}"
            case "replaying":
                kind, text = Kind.REPLAYING, f"is being replayed {job['text']}"
            case "replayed" | "replayed_duplicate":
                transform = transform_of(event.destination)
                end = f"landed in {named}" if transform is None else f"transform {transform} has processed it"
                kind, text = Kind.REPLAYED, f"was replayed {job['text']}: {end}"
            case "open" if event.failed:
                why = sentence_of(event.failed).rstrip(".")
                kind, text = Kind.REPLAY_FAILED, f"was replayed {job['text']}, which failed: {why}"
            case "open" if job["kind"] == "restore":
                kind, text = Kind.RESTORED, f"was restored {job['text']}"
            case _:
                return
        yield self._step(kind, text, at=event.changed_at, destination=named, facts=facts)

    def _job(self, uuid: str | None) -> dict[str, Any]:
        job = None if uuid is None else self._evidence.jobs.get(uuid)
        if job is None:
            text = "by a job that is not in the control database"
            return {"text": text, "number": None, "actor": None, "reason": None, "kind": None}
        text = f"by {job.actor} in job {job.number} ({job.reason})"
        return {
            "text": text,
            "number": job.number,
            "actor": job.actor,
            "reason": job.reason,
            "kind": job.kind,
        }

    def _sql(self, database: str, table: str) -> str | None:
        answers = self._evidence.rows.get(database, TableAnswers())
        return next((row.sql for row in answers.rows if str(row.table) == table), None)

    def _step(self, kind: Kind, text: str, **more: Any) -> Step:
        return Step(kind, text, receipt=self._evidence.receipt, **more)


def _named(destination: str) -> str:
    """Return a destination, or the part of the event that was refused."""
    if not destination:
        return "any table"
    return f"the destination at {destination}" if wire.is_refused(destination) else destination
