"""The lake in a statement, from the positions on Kafka: rows, lag, and stored readings of a period."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from services.admin.statements.hourly_readings import HourlyReadings
from services.admin.statements.period import Statements
from services.cli.show.statement import lines_of
from services.ops.lake.landed_offsets import LandedOffsetsReader
from services.ops.statement.balance import Statement
from shared.kafka_security import Brokers
from tests.fixtures.fix_kafka import HasBootstrap
from tests.fixtures.fix_postgres import Templates
from tests.fixtures.lake import LakeScene
from tests.fixtures.writer import event, eventually, produce
from tests.integration.admin.conftest import database_beside

HOUR = timedelta(hours=1)
THEN = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - 8 * HOUR


@pytest.fixture
def control(templates: Templates) -> Iterator[str]:
    with database_beside(templates.server, templates.control) as dsn:
        yield dsn


def land(scene: LakeScene, count: int, *, first: int = 0) -> None:
    """Land events in partition 0, and a record of another type after them."""
    scene.send(count, first=first)
    produce(scene.bootstrap, scene.topic, [event("x", "other")], partition=0)
    with scene.running() as lake:
        scene.has(first + count)
        eventually(lambda: lake.status()["topics"][scene.topic]["lag_events"] == 0)


def test_the_statement_has_rows_and_lag_of_a_table(kafka: HasBootstrap, tmp_path: Path, control: str) -> None:
    table = f"t{tmp_path.name[-8:].replace('-', '_')}"
    scene = LakeScene(
        kafka.bootstrap, tmp_path / "lake", event_type={"destinations": [{"type": "lake", "table": table}]}
    )
    reader, brokers = LandedOffsetsReader(Brokers(scene.bootstrap)), Brokers(scene.bootstrap)
    statements = Statements(brokers, control, {}, lake=reader, registry=scene.registry.snapshot)
    readings = HourlyReadings(brokers, control, {}, days=9, lake=reader)

    def of(since: datetime | None, until: datetime | None) -> Statement:
        return asyncio.run(statements.of(since, until, lambda topic: topic == scene.topic))

    scene_has = scene.has
    scene.has = lambda count, name=table: scene_has(count, name)  # type: ignore[method-assign]
    for n in range(2):
        land(scene, 3 + n, first=3 * n)
        asyncio.run(readings.read(THEN + n * HOUR))
    scene.send(2, first=20)
    found = of(None, None)
    (line,) = found.lake
    assert line.as_dict() == {
        "table": table,
        "event_type": scene.name,
        "topic": scene.topic,
        "landed": 7,
        "lag": 2,
        "partitions": [
            {"partition": 0, "since": 0, "until": 9, "landed": 7},
            {"partition": 1, "since": 0, "until": 0, "landed": 0},
        ],
        "compared_with": [],
        "adds_up": True,
    }
    assert f"{scene.topic} -> lake.{table}: 7 rows, lag 2" in [*lines_of(found.as_dict())]
    (past,) = of(THEN, THEN + HOUR).lake
    assert (past.landed, past.lag, past.partitions[0].first, past.partitions[0].next) == (4, None, 4, 9)
    without = of(THEN - 9 * HOUR, THEN).unevaluated
    assert without["the lake"] == "no reading from the start of the period is stored"
