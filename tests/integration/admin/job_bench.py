"""A bench for jobs: a control database, parked events, and a simulated writer."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING, Any

from services.admin.audits.runner import AuditRunner
from services.admin.jobs import job_sets
from services.admin.jobs.job_session import JobSession
from services.admin.jobs.runner import JobRunner
from services.admin.store import jobs_sql, results_sql, sets_sql
from services.admin.store.control_sql import transaction
from services.admin.store.ingester_sql import IngesterSession
from services.admin.store.jobs_sql import Job, Plan
from services.ops.findings import Source
from services.ops.kafka_logs import LogRecord
from services.ops.parked.parked_events import stored_event
from shared import wire
from tests.fixtures.writer import records, rows

if TYPE_CHECKING:
    from tests.integration.admin.conftest import Stage

PLAY = """
    WITH taken AS (DELETE FROM onramp.replays WHERE "offset" = ANY (ARRAY[{offsets}]) RETURNING *)
    INSERT INTO onramp.replayed (topic_id, topic, partition, "offset", destination, attempt, outcome, reason,
                                 job)
    SELECT topic_id, topic, partition, "offset", destination, attempt, '{outcome}', {reason}, job FROM taken
"""
ANSWER = """
    UPDATE onramp.rehearsals SET outcome = '{outcome}', reason = {reason}
    WHERE outcome IS NULL AND "offset" = ANY (ARRAY[{offsets}])
"""
EVERY = (0, 1, 2, 3, 4)


@contextmanager
def running(runner: AuditRunner | JobRunner) -> Iterator[None]:
    """Run `runner` in a thread while the block runs."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=lambda: loop.run_until_complete(runner.run()))
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(runner.stop)
        thread.join()
        loop.close()


@dataclass
class Desk:
    """A control database with five parked events of a stage, and a session that runs jobs."""

    stage: "Stage"
    dsn: str
    session: JobSession

    def start(self, kind: str = "replay", plan: Plan | None = None, **filters: Any) -> int:
        """Start a job for the stage's events, or for those that match."""
        with transaction(self.dsn) as conn:
            events = sets_sql.frozen(conn, {"event_name": self.stage.name} | filters)
            counted = sets_sql.count(conn, kind, events, self.session.databases)
            by = ("ann", "fixed")
            return jobs_sql.add(conn, kind, events, by, rate=None, counted=counted, plan=plan or Plan())

    def start_rehearsed(self, number: int) -> int:
        """Start the replay of a rehearsal."""
        with transaction(self.dsn) as conn:
            events, plan = job_sets.rehearsed_set(conn, number, self.session.databases)
            return jobs_sql.add(conn, "replay", events, ("ann", "ok"), rate=None, counted=5, plan=plan)

    def work(self, steps: int = 3) -> None:
        """Do some steps, whenever they are due."""
        for _ in range(steps):
            with transaction(self.dsn) as conn, conn.cursor() as cursor:
                cursor.execute("UPDATE onramp_admin.jobs SET next_at = now()")
            self.session.work()

    def cancel(self, job: int) -> None:
        with transaction(self.dsn) as conn:
            assert jobs_sql.cancel(conn, job)

    def job(self, number: int) -> Job:
        with transaction(self.dsn) as conn:
            found = jobs_sql.job(conn, number)
        assert found is not None
        return found

    def results(self, number: int) -> list[tuple[str, str, int]]:
        """The outcomes of the job's events, with reasons."""
        with transaction(self.dsn) as conn:
            return results_sql.read(conn, number)

    def states(self) -> list[tuple[int, str, int]]:
        """Offset, state and attempt of each event."""
        statement = (
            'SELECT "offset", state, attempt FROM onramp_admin.events WHERE event_name = $$%s$$ ORDER BY 1'
        )
        return rows(self.dsn, statement % self.stage.name)

    def staged(self) -> list[tuple[int, int]]:
        """Offset and attempt."""
        return self.stage.rows('SELECT "offset", attempt FROM onramp.replays ORDER BY 1')

    def play(self, outcome: str, *offsets: int, reason: str = "NULL") -> None:
        """Process the staged events as the writer does."""
        listed = ", ".join(map(str, offsets))
        self.stage.execute(PLAY.format(offsets=listed, outcome=outcome, reason=reason))

    def answer(self, outcome: str, *offsets: int, reason: str = "NULL") -> None:
        """Process the requested rehearsals as the writer does."""
        listed = ", ".join(map(str, offsets))
        self.stage.execute(ANSWER.format(offsets=listed, outcome=outcome, reason=reason))

    def asked(self) -> list[int]:
        """The offsets of requested rehearsals, answered or not."""
        return [n for (n,) in self.stage.rows('SELECT "offset" FROM onramp.rehearsals ORDER BY 1')]


@contextmanager
def desk_of(stage: "Stage", dsn: str) -> Iterator[Desk]:
    """Store the parked events of `stage` in the control database `dsn`."""
    ingester = IngesterSession.open(dsn)
    assert ingester is not None
    there = [_log_record(r) for r in records(stage.bootstrap, wire.USER_ERRORS)]
    found = [stored_event(record) for record in there]
    consumed = {r.source: r.offset + 1 for r in sorted(there, key=lambda r: r.offset)}
    ingester.keep([e for e in found if e and e.topic == stage.partition.topic], consumed)
    ingester.close()
    session = JobSession.open(dsn, {"onramp": stage.dsn})
    yield Desk(stage, dsn, session)
    session.close()


def _log_record(record: Any) -> LogRecord:
    return LogRecord(
        source=Source(wire.USER_ERRORS, record.partition),
        offset=record.offset,
        timestamp=0,
        key=record.key,
        value=record.value,
        header_count=len(record.headers),
        headers=record.headers,
    )
