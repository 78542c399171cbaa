"""Transforms in a statement: totals of a period on Kafka, and stored readings of a period that has ended."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from services.admin.statements.hourly_readings import HourlyReadings
from services.admin.statements.period import Statements
from services.cli.show.statement import lines_of
from services.ops.statement.balance import Statement
from services.ops.transforms.reader import TransformReader
from shared.kafka_security import Brokers
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import Templates
from tests.fixtures.transforms import TransformScene
from tests.fixtures.writer import event, produce
from tests.integration.admin.conftest import database_beside

HOUR = timedelta(hours=1)
THEN = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - 8 * HOUR


@pytest.fixture
def scene(kafka: HasBootstrap) -> TransformScene:
    return TransformScene.make(kafka.bootstrap)


@pytest.fixture
def control(templates: Templates) -> Iterator[str]:
    with database_beside(templates.server, templates.control) as dsn:
        yield dsn


class Asked:
    """Statements and hourly readings of one transform."""

    def __init__(self, scene: TransformScene, control: str) -> None:
        brokers = Brokers(scene.bootstrap)
        reader = TransformReader(brokers)
        self._shows = scene.source
        self._statements = Statements(brokers, control, {}, transforms=reader)
        self._readings = HourlyReadings(brokers, control, {}, days=9, transforms=reader)

    def store(self, at: datetime) -> None:
        asyncio.run(self._readings.read(at))

    def of(self, since: datetime | None, until: datetime | None) -> Statement:
        return asyncio.run(self._statements.of(since, until, lambda topic: topic == self._shows))


def test_each_outcome_and_the_lag_are_stated(scene: TransformScene, control: str) -> None:
    statements = Asked(scene, control)
    scene.send([1, 0, None, 2])
    produce(scene.bootstrap, scene.source, [event("x", "other")])
    assert scene.run().fault is None
    scene.send([1, 1], first=9)
    found = statements.of(None, None)
    (line,) = found.transforms
    assert line.as_dict() == {
        "transform": scene.name,
        "topics": [scene.source],
        "read": 5,
        "emitted": 2,
        "dropped": 1,
        "filtered": 1,
        "parked": 1,
        "outputs": 3,
        "lag": 2,
        "skipped": 0,
        "offsets_without_record": 0,
        "adds_up": True,
    }
    assert found.differences == []
    counts = "5 records = 2 emitted + 1 dropped + 1 filtered + 1 parked; 3 outputs, lag 2"
    assert f"transform {scene.name}: {counts}" in list(lines_of(found.as_dict()))


def test_a_period_that_has_ended_is_the_growth_between_readings(scene: TransformScene, control: str) -> None:
    statements = Asked(scene, control)
    for n in range(3):
        scene.send([1, 0, 2], first=3 * n)
        assert scene.run().fault is None
        statements.store(THEN + n * HOUR)
    (line,) = statements.of(THEN, THEN + 2 * HOUR).transforms
    assert (line.read, line.outcomes["emitted"], line.outputs, line.lag) == (6, 4, 6, None)
    (since,) = statements.of(THEN + HOUR, None).transforms
    assert (since.read, since.lag) == (3, 0)
    (whole,) = statements.of(None, None).transforms
    assert whole.read == 9


def test_an_unreadable_part_is_named(scene: TransformScene, control: str) -> None:
    scene.send([1])
    assert scene.run().fault is None
    without = Asked(scene, control).of(THEN, None)
    assert without.unevaluated["the transforms"] == "no reading from the start of the period is stored"
    assert without.transforms == []
