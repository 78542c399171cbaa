"""Audit of truncated or recreated topics: events that cannot be evaluated never reconcile."""

from dataclasses import replace
from uuid import uuid4

import pytest

from services.writer.partitions.partition_halts import AcceptedGeneration
from services.writer.partitions.plan_log import PlanLog
from tests.fixtures.writer import event
from tests.integration.admin.conftest import Stage

_AS_THE_LOG_WAS = """
    INSERT INTO {t} SELECT 'gone-' || n, _event_name, _timestamp, _version, _received_at, _topic, _partition,
        n, payload FROM {t}, generate_series(6, 9) AS n WHERE _offset = 0;
    UPDATE onramp.totals SET events = events + 4 WHERE outcome = 'landed';
    UPDATE onramp.ledger SET next_offset = 10, upto = 10
"""


def _another_generation(stage: Stage, first: int, *, accepted: bool) -> Stage:
    """The same partition as another generation from `first` on, which an operator accepted or not."""
    after = replace(stage, topic_id=str(uuid4()), notes=PlanLog())
    after.claim(first)
    if accepted:
        accepted_as = AcceptedGeneration(2, after.topic_id, first)
        stage.tell(stage.notes.halts.accept_entries(stage.topic_id, 0, accepted_as))
    return after


@pytest.fixture
def cut(stage: Stage) -> Stage:
    """10 had landed, the log was cut at 6; 6 to 13 are other events, landed once that was accepted."""
    stage.settle(*(event(f"old-{n}", stage.name, n=n) for n in range(6)))
    stage.execute(_AS_THE_LOG_WAS.format(t=stage.table))
    after = _another_generation(stage, 6, accepted=True)
    after.settle(*(event(f"new-{n}", stage.name, n=n) for n in range(8)))
    return after


def test_truncated_topic_has_both_generations_read_and_its_removed_events_are_unjudged(cut: Stage) -> None:
    report = cut.audit()
    assert (report.findings, report.unjudged, report.balanced) == ([], 4, False)
    assert [(line.baseline, line.next_offset) for line in report.lines] == [(0, 10), (6, 14)]
    assert report.receipts == 14
    assert any("4 events are of a log that was truncated at 6" in each for each in report.unchecked)


@pytest.mark.parametrize(
    ("plant", "named"),
    [
        ("DELETE FROM {t} WHERE _id = 'old-2'", {("lost", 2), ("wrong_total", None)}),
        ("DELETE FROM {t} WHERE _id = 'new-1'", {("lost", 7), ("wrong_total", None)}),
        ("DELETE FROM {t} WHERE _id = 'new-5'", {("lost", 11), ("wrong_total", None)}),
        ("DELETE FROM {t} WHERE _id = 'gone-8'", {("wrong_total", None)}),
        ("UPDATE {t} SET payload = '{{}}' WHERE _id = 'new-1'", {("corrupt", 7)}),
        ("UPDATE {t} SET _offset = 2 WHERE _id = 'gone-8'", {("duplicate", 2)}),
        ("UPDATE {t} SET _offset = 7 WHERE _id = 'gone-8'", {("duplicate", 7)}),
        ("UPDATE {t} SET _offset = 12 WHERE _id = 'gone-8'", {("duplicate", 12)}),
        ("UPDATE onramp.ledger SET upto = 9 WHERE next_offset = 10", {("gap", 9)}),
    ],
)
def test_fault_planted_in_either_topic_generation_is_reported(
    cut: Stage, plant: str, named: set[tuple[str, int | None]]
) -> None:
    cut.execute(plant.format(t=cut.table))
    assert cut.found() == named


def test_an_event_of_the_log_that_was_that_is_sent_again_is_no_loss(cut: Stage) -> None:
    """At its offset, or below, the topic generation of the row is unknown."""
    cut.execute(f"UPDATE {cut.table} SET _id = 'old-event' WHERE _id = 'new-0'")  # noqa: S608
    cut.execute(f"UPDATE {cut.table} SET _id = 'new-0', payload = '{{\"n\":0}}' WHERE _id = 'gone-8'")  # noqa: S608
    assert cut.found() == set()


def test_generations_that_nothing_tells_apart_are_unjudged(stage: Stage) -> None:
    stage.settle(*(event(f"old-{n}", stage.name, n=n) for n in range(3)))
    after = _another_generation(stage, 3, accepted=False)
    after.settle(event("new", stage.name))
    report = after.audit()
    assert (report.findings, report.unjudged, report.balanced, report.receipts) == ([], 3, False, 1)
    stage.execute("UPDATE onramp.ledger SET upto = 2 WHERE next_offset = 3")
    assert after.found() == {("gap", 2)}
