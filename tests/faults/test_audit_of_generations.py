"""Audit after Kafka deleted unsettled events and an operator accepted the loss: they remain findings."""

import asyncio
import re

import pytest
from typer.testing import CliRunner

from services.cli.app import app
from services.ops.audit.run import Request, audit
from services.ops.findings import Report
from shared.kafka_security import Brokers
from tests.fixtures.scenes import Scene
from tests.fixtures.writer import delete_records, event, eventually, execute, make_topics, produce


def _audited(scene: Scene) -> Report:
    databases = {scene.database: scene.dsn}
    return asyncio.run(audit(Request(Brokers(scene.bootstrap), databases, re.escape(scene.topic), deep=True)))


def _named(scene: Scene) -> set[tuple[str, int | None]]:
    return {(f.code.value, f.offset) for f in _audited(scene).findings}


def _produce(scene: Scene, prefix: str, count: int) -> None:
    values = [event(f"{prefix}-{n}", scene.name, n=n) for n in range(count)]
    produce(scene.bootstrap, scene.topic, values)


@pytest.fixture
def halted(inline: Scene) -> Scene:
    """Events 0 to 2 have landed; Kafka deleted 3 to 6 before they were settled."""
    make_topics(inline.bootstrap, inline.topic, partitions=1)
    writer = inline.writer()
    _produce(inline, "old", 3)
    eventually(lambda: inline.group() == {0: 3})
    writer.stop()
    _produce(inline, "lost", 4)
    delete_records(inline.bootstrap, inline.topic, 0, 7)
    writer = inline.writer(wait=False)
    eventually(lambda: writer.refused != {})  # type: ignore[attr-defined]
    return inline


@pytest.fixture
def accepted(halted: Scene) -> Scene:
    """An operator accepted the loss, and 7 to 9 have landed since."""
    given = ["--kafka", halted.bootstrap, "--dsn", halted.dsn]
    word = ["partitions", "resolve", f"{halted.topic}/0", "accept", *given]
    eventually(lambda: CliRunner().invoke(app, word).exit_code == 0)
    _produce(halted, "new", 3)
    eventually(lambda: halted.landed() == 6)
    eventually(lambda: halted.group() == {0: 10})
    return halted


def test_events_deleted_by_kafka_before_settling_are_reported_lost(halted: Scene) -> None:
    report = _audited(halted)
    assert [(f.code, f.offset) for f in report.findings] == [("lost", 3)]
    assert "[3, 7)" in report.findings[0].detail
    assert report.unsettled == 0  # they are nowhere


PLANTED: dict[str, set[tuple[str, int | None]]] = {
    "DELETE FROM {t} WHERE _offset = 8": {("lost", 8), ("wrong_total", None)},
    "UPDATE {t} SET _offset = 9 WHERE _offset = 8": {("lost", 8), ("duplicate", 9)},
    "UPDATE {t} SET _offset = 1 WHERE _offset = 2": {("duplicate", 1)},
    "UPDATE {t} SET _offset = 5 WHERE _offset = 8": {("wrong_total", None), ("phantom", 5)},
    "UPDATE onramp.ledger SET upto = 2 WHERE next_offset = 3": {("gap", 2)},
}


def test_loss_accepted_by_an_operator_stays_a_finding_and_both_generations_are_audited(
    accepted: Scene,
) -> None:
    report = _audited(accepted)
    assert [(f.code, f.offset) for f in report.findings] == [("lost", 3)]
    assert re.search(r"deleted \[3, 7\).* accepted that$", report.findings[0].detail)
    assert report.receipts == 3
    assert [(line.baseline, line.next_offset) for line in report.lines] == [(0, 3), (7, 10)]

    tables = (f"events.{accepted.name}", "onramp.ledger")
    copies = {table: f"copy_{n}" for n, table in enumerate(tables)}
    for table, copy in copies.items():
        execute(accepted.dsn, f"CREATE TABLE {copy} AS TABLE {table}")
    for plant, named in PLANTED.items():
        execute(accepted.dsn, plant.format(t=f"events.{accepted.name}"))
        assert _named(accepted) == named | {("lost", 3)}, plant
        for table, copy in copies.items():
            execute(accepted.dsn, f"TRUNCATE {table}; INSERT INTO {table} SELECT * FROM {copy}")  # noqa: S608
    assert _named(accepted) == {("lost", 3)}
