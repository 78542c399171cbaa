"""Audit during concurrent writes: data read at different moments is not evaluated."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import pytest

from services.ops import totals_sql
from services.ops.audit import run as audits
from services.ops.findings import Report
from services.ops.totals_sql import Snapshot
from services.writer.model.routes import EventRoute, Routes
from services.writer.partitions.plan_log import Totals
from services.writer.postgres.database import Database
from services.writer.postgres.pool import transaction
from services.writer.settle import ledger
from services.writer.settle.task import settle
from services.writer.settle.work_order import WorkOrder
from shared.kafka_read.offsets import Generation, Range
from shared.kafka_security import Brokers
from tests.fixtures.fix_postgres import Templates
from tests.fixtures.writer import arrivals, database_of, event, read
from tests.integration.admin.conftest import EPOCH, Stage, database_beside, disconnect


@dataclass
class Pair:
    """A stage whose events go to two databases."""

    stage: Stage
    other: Database

    def send(self, n: int) -> Range:
        values = [event(f"e-{self.stage.at + i}", self.stage.name) for i in range(n)]
        first = self.stage.send(*values)
        return Range(self.stage.topic_id, self.stage.partition, first, self.stage.at)

    def land(self, r: Range, *databases: Database) -> None:
        """As a batch does before it is committed."""
        values = [event(f"e-{i}", self.stage.name) for i in range(r.start, r.end)]
        batch = arrivals(values, first=r.start, partition=r.partition)
        routes = Routes("onramp", event_routes=tuple(EventRoute(self.stage.name, n) for n in self.names))
        elsewhere = tuple({*self.names} - {d.name for d in databases})
        order = WorkOrder(
            epoch=EPOCH,
            ranges={r.partition: r},
            landing=databases,
            diverted=(),
            routes=routes,
            brokers=Brokers(self.stage.bootstrap),
            elsewhere=elsewhere,
        )
        self.stage.tell(self.stage.notes.routes_entries(routes))
        reports = settle(order, read(batch))
        assert not [r.failure for r in reports if r.failure], reports

    def audit(self, *, deep: bool = True) -> Report:
        return self.stage.audit(deep=deep, other=self.other.dsn)

    @property
    def names(self) -> tuple[str, str]:
        return ("onramp", "other")


@pytest.fixture
def pair(stage: Stage, templates: Templates) -> Iterator[Pair]:
    with database_beside(templates.server, templates.writer) as dsn:
        other = replace(database_of(dsn), name="other")
        with transaction(other, "driver") as conn:
            ledger.claim(conn, {Generation(stage.topic_id, stage.partition): 0}, EPOCH)
        stage.tell(stage.notes.baseline_entries({(stage.topic_id, 0): 0}, ["other"]))
        yield Pair(stage, other)
        disconnect()


def _is_open(report: Report) -> bool:
    """Whether nothing is said to be wrong, nor to be well."""
    assert report.findings == []
    return not report.balanced


def test_a_batch_that_is_in_one_database_and_not_yet_in_the_other_is_not_judged(pair: Pair) -> None:
    done = pair.send(3)
    pair.land(done, pair.stage.database, pair.other)
    pair.stage.commit()
    assert pair.audit().balanced
    half = pair.send(4)
    pair.land(half, pair.stage.database)
    assert _is_open(report := pair.audit())
    assert report.unjudged == 4
    assert any("[3, 7)" in each and "other" in each for each in report.unchecked)
    assert _is_open(pair.audit(deep=False))
    pair.land(half, pair.other)
    pair.stage.commit()
    assert pair.audit().balanced
    assert pair.audit(deep=False).balanced


def test_event_passed_by_the_group_offset_and_missing_in_a_database_is_lost(pair: Pair) -> None:
    pair.land(pair.send(4), pair.stage.database)
    pair.stage.commit()
    assert {(f.code.value, f.offset) for f in pair.audit().findings} == {("lost", n) for n in range(4)}


def test_databases_that_are_read_one_after_the_other_while_a_writer_goes_on_are_not_judged(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look meets a batch that both have, between the one's moment and the other's."""
    opened: Callable[[str, str], AbstractContextManager[Snapshot]] = totals_sql.opened

    def batch() -> None:
        pair.land(pair.send(2), pair.stage.database, pair.other)
        pair.stage.commit()

    def with_a_batch_before(name: str, dsn: str) -> AbstractContextManager[Snapshot]:
        if name == "other":
            with ThreadPoolExecutor(1) as beside:  # the audit's own loop is at work in this thread
                beside.submit(batch).result()
        return opened(name, dsn)

    monkeypatch.setattr(audits, "_BETWEEN_SECONDS", 0.0)
    monkeypatch.setattr(totals_sql, "opened", with_a_batch_before)
    assert _is_open(report := pair.audit())
    assert report.unjudged == 2
    assert _is_open(pair.audit(deep=False))
    monkeypatch.undo()
    assert pair.audit().balanced


@pytest.mark.parametrize("deep", [True, False])
def test_sums_of_several_moments_are_neither_right_nor_wrong(stage: Stage, *, deep: bool) -> None:
    stage.settle(event("a", stage.name), event("b", stage.name))
    stage.note(Totals(9, 1))  # of later offsets, counted while the databases were read
    assert _is_open(report := stage.audit(deep=deep))
    assert report.in_motion == 1
    assert any("not of one moment" in each for each in report.unchecked)


def test_sums_of_several_moments_that_agree_by_chance_are_no_proof(stage: Stage) -> None:
    stage.settle(event("a", stage.name), event("b", stage.name))
    stage.execute("UPDATE onramp.totals SET events = events - 1")  # one is lost
    stage.execute(f"DELETE FROM {stage.table} WHERE _id = 'a'")  # noqa: S608 - the test's own name
    stage.note(Totals(9, 1))  # and one of a later offset is counted
    assert _is_open(stage.audit(deep=False))
    assert ("lost", 0) in stage.found()


def test_a_partition_without_events_is_not_in_the_middle_of_anything(stage: Stage) -> None:
    for deep in (True, False):
        assert stage.audit(deep=deep).balanced
