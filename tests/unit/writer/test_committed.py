"""Totals of commits: task reports count at once, database totals correct them, nothing counts twice."""

import asyncio

import pytest

from services.writer.observe.database_stats import DatabaseStats
from services.writer.observe.status import Moment, Status
from services.writer.settle.ledger import Tally
from services.writer.settle.outcome_counts import OutcomeCounts
from services.writer.settle.work_order import TaskReport
from shared import new_counters
from shared.kafka_read.offsets import Partition
from shared.outcomes import Outcome

TOPIC = Partition("events.a", 0)


class Scrapes:
    """A status with the counts of its database and of tasks, and the shown counter."""

    def __init__(self, new_counter_seconds: float = 0.0) -> None:
        self.status = Status(new_counter_seconds)

    def read(self, total: int, began: Moment | None = None) -> None:
        totals = {("events.a", "events.a", "landed"): total} if total else {}
        stats = DatabaseStats(totals, {}, {})
        self.status.update_database("db", stats, began or self.status.committed.moment())

    def report(self, landed: int) -> None:
        counts = OutcomeCounts()
        tallies = {Tally("id", TOPIC, "events.a", Outcome.LANDED): landed}
        counts.add("db", tallies | {Tally("id", TOPIC, "events.a", Outcome.WAITING): 1000})
        self.status.count_landed([TaskReport(*TOPIC, outcomes=counts.as_json()), TaskReport("b", 0)])

    def land(self, landed: int) -> None:
        with self.status.committed.landing():
            self.report(landed)

    @property
    def shown(self) -> float:
        self.status.page()  # counts what is no longer new
        where = {"topic": "events.a", "table": "events.a", "outcome": "landed", "event_type": "a"}
        labels = where | {"database": "db", "step": "persist"}
        value = self.status.metrics.registry.get_sample_value("onramp_writer_events_total", labels)
        return -1.0 if value is None else value


def test_commits_reported_by_tasks_count_before_totals_are_read_again() -> None:
    scrapes = Scrapes()
    scrapes.read(10)
    scrapes.land(5)
    scrapes.land(2)
    assert scrapes.shown == 17
    scrapes.read(17)
    assert scrapes.shown == 17
    scrapes.land(1)
    assert scrapes.shown == 18


def test_a_total_that_has_a_commit_before_its_report_is_counted_once() -> None:
    scrapes = Scrapes()
    scrapes.read(10)
    with scrapes.status.committed.landing():
        scrapes.read(15)  # the rows are committed, the report is under way
        began = scrapes.status.committed.moment()
        scrapes.report(5)
    scrapes.read(15, began)
    assert scrapes.shown == 15
    began = scrapes.status.committed.moment()
    with scrapes.status.committed.landing():
        scrapes.read(18, began)  # begun while nothing landed, and ended behind a commit
        scrapes.report(3)
    assert scrapes.shown == 18


def test_unreported_commits_count_when_totals_are_read_and_not_twice_after_a_restart() -> None:
    scrapes = Scrapes()
    scrapes.land(4)  # before the first reading nobody knows of how many
    assert scrapes.shown == -1
    scrapes.read(1004)
    assert scrapes.shown == 1004
    scrapes.read(1500)  # what waited has drained
    scrapes.land(1)
    assert scrapes.shown == 1501


def test_a_total_that_is_lower_than_what_was_shown_takes_nothing_back() -> None:
    scrapes = Scrapes()
    scrapes.read(10)
    scrapes.land(5)
    scrapes.read(3)  # the database was restored
    scrapes.land(1)
    assert scrapes.shown == 15


def test_a_table_that_begins_is_at_0_for_a_while_and_then_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(new_counters.time, "monotonic", lambda: now[0])
    scrapes = Scrapes(new_counter_seconds=60.0)
    scrapes.read(0)
    scrapes.land(5)
    text = scrapes.status.page().decode()
    assert [line.rpartition(" ")[2] for line in text.splitlines() if 'outcome="landed"' in line] == ["0.0"]
    now[0] += 60.0
    assert scrapes.shown == 5


def test_waiting_events_are_absent_from_the_totals() -> None:
    scrapes = Scrapes()
    scrapes.read(0)
    scrapes.land(1)
    assert scrapes.shown == 1
    assert b'outcome="waiting"' not in scrapes.status.page()


def test_a_reading_waits_until_nothing_lands_and_not_for_ever() -> None:
    async def moments() -> tuple[bool, bool, bool]:
        committed = Status().committed
        with committed.landing():
            patient = asyncio.create_task(committed.quiet(600))
            impatient = await committed.quiet(0.01)
            for _ in range(100):
                await asyncio.sleep(0)
            waited = not patient.done()
        return waited, impatient.is_quiet(), (await patient).is_quiet()

    assert asyncio.run(moments()) == (True, False, True)


def test_a_reading_is_cancelled_at_any_of_its_steps() -> None:
    async def readings() -> None:
        while True:
            await committed.quiet(600)
            await asyncio.sleep(0)

    async def ends_after(steps: int) -> None:
        task = asyncio.create_task(readings())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        for _ in range(20):
            await asyncio.sleep(0)
        assert task.cancelled()

    committed = Status().committed
    for steps in range(1, 10):
        asyncio.run(ends_after(steps))
